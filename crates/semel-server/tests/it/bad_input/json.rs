//! Bodies: what is no JSON, what is odd JSON, and what is too much of it.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::{Case, fields, refused};
use crate::kit::{World, scenarios};

scenarios!(
    text_that_is_no_json_is_refused,
    json_that_no_worker_could_read_is_refused,
    odd_json_is_kept_byte_for_byte,
    a_body_may_be_as_large_as_the_limit_and_no_larger,
    a_problem_is_not_larger_than_what_it_is_about,
    only_plain_json_bodies_are_read,
);

async fn text_that_is_no_json_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    let texts: Vec<Bytes> = vec![
        "".into(),
        " ".into(),
        "{".into(),
        "nope".into(),
        r#"{"payload": 1"#.into(),
        r#"{"payload": {"a": [1, 2"#.into(),
        r#"{"payload": 1}}"#.into(),
        r#"{"payload": 1} {"payload": 2}"#.into(),
        r#"{'payload': 1}"#.into(),
        r#"{"payload": 01}"#.into(),
        r#"{"payload": NaN}"#.into(),
        "\u{feff}{\"payload\": 1}".into(),
        "{\"payload\": \"\0\"}".into(),
        Bytes::from_static(b"{\"payload\": \"\xff\"}"),
        Bytes::from_static(b"{\"pay\xffload\": 1}"),
        Bytes::from_static(b"\x00\x01\x02"),
        "[]".into(),
        "null".into(),
        "1".into(),
        r#""payload""#.into(),
    ];
    let publishes = texts.iter().map(|text| Case::publish(text.clone()).is(400, "invalid_json"));
    refused(world, publishes).await;
    // Where a body may be left out, text that is none is refused all the same.
    let others = texts.iter().skip(2).flat_map(|text| {
        [
            ("PUT", "/v1/queues/new"),
            ("POST", "/v1/queues/q/lease"),
            ("POST", "/v1/api-keys"),
            ("POST", "/v1/settle"),
            ("POST", "/v1/queues/q/dead/replay"),
            ("PUT", "/v1/schedules/s"),
            ("POST", "/v1/queues/q/jobs/batch"),
        ]
        .map(|(method, path)| Case::new(method, path, text.clone()).is(400, "invalid_json"))
    });
    refused(world, others).await;
}

async fn json_that_no_worker_could_read_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let unreadable = [
        nested(128),
        nested(100_000),
        "1e999".into(),
        "-1e999".into(),
        r#""\ud800""#.into(),
        r#""\udc00x""#.into(),
    ];
    for payload in unreadable {
        let problems = refused(world, [Case::publish(format!(r#"{{"payload": {payload}}}"#))]).await;
        assert_eq!(fields(&problems[0]), ["payload"], "{}", problems[0]);
    }
    world
        .client
        .send(Method::POST, "/v1/queues/q/jobs", &[], Some(format!(r#"{{"payload": {}}}"#, nested(127))))
        .await
        .expect(201);
}

/// What is odd but JSON is the sender's business: a worker gets the very bytes.
async fn odd_json_is_kept_byte_for_byte(world: &World) {
    world.queue("q", json!({})).await;
    let odd = [
        r#"{"a":1,"a":2}"#,
        "-0",
        "18446744073709551616",
        "1.0",
        "1E2",
        "0.1000",
        r#""\u0000\/""#,
        r#"{"é":"\u00e9"}"#,
        "[ 1 ,\t2 ]",
        "null",
        "\"<script>alert(1)</script>\\u001b[31m\"",
        "\"=cmd|' /C calc'!A0\"",
    ];
    for payload in odd {
        let body = Some(format!(r#"{{"payload": {payload}}}"#));
        let made = world.client.send(Method::POST, "/v1/queues/q/jobs", &[], body).await.expect(201);
        let shown = world.client.get(&format!("/v1/jobs/{}", made["id"].as_str().unwrap())).await;
        assert!(shown.text.contains(&format!(r#""payload":{payload},"#)), "{payload}: {}", shown.text);
        let leased = world.client.post("/v1/queues/q/lease", json!({})).await;
        assert!(leased.text.contains(&format!(r#""payload":{payload},"#)), "{payload}: {}", leased.text);
    }
}

async fn a_body_may_be_as_large_as_the_limit_and_no_larger(world: &World) {
    const PAYLOAD_LIMIT: usize = 256 * 1024;
    const BODY_LIMIT: usize = 1024 * 1024;
    world.queue("q", json!({})).await;
    let text = |bytes: usize| format!(r#""{}""#, "x".repeat(bytes - 2));
    let publish = |bytes: usize| format!(r#"{{"payload":{}}}"#, text(bytes));
    world.client.send(Method::POST, "/v1/queues/q/jobs", &[], Some(publish(PAYLOAD_LIMIT))).await.expect(201);
    let padded = |bytes: usize| format!("{}{}", r#"{"payload":1}"#, " ".repeat(bytes - 13));
    world.client.send(Method::POST, "/v1/queues/q/jobs", &[], Some(padded(BODY_LIMIT))).await.expect(201);
    let keys: Vec<_> = (0..1_000_000).map(|n| format!(r#""k{n}":0"#)).collect();
    refused(
        world,
        [
            Case::publish(publish(PAYLOAD_LIMIT + 1)).is(413, "payload_too_large"),
            Case::publish(padded(BODY_LIMIT + 1)).is(413, "body_too_large"),
            Case::publish(padded(3 * BODY_LIMIT)).is(413, "body_too_large"),
            Case::publish(format!(r#"{{"payload":{{{}}}}}"#, keys.join(","))).is(413, "body_too_large"),
        ],
    )
    .await;
}

async fn a_problem_is_not_larger_than_what_it_is_about(world: &World) {
    world.queue("q", json!({})).await;
    let keys: Vec<_> = (0..1_000_000).map(|n| format!(r#""k{n}":0"#)).collect();
    let long = "k".repeat(500_000);
    let problems = refused(
        world,
        [
            Case::new("POST", "/v1/queues/q/jobs/batch", format!("{{{}}}", keys.join(","))),
            Case::publish(format!("{{{}}}", keys[..50_000].join(","))),
            Case::publish(format!(r#"{{"payload":1,"{long}":1}}"#)),
            Case::publish(format!(r#"{{"payload":1,"idempotencyKey":"{long}"}}"#)),
            Case::publish(format!(r#"{{"payload":1,"delay":"{long}"}}"#)),
            Case::publish(format!(r#"{{"payload":1,"runAt":"{long}"}}"#)),
            Case::new("PUT", "/v1/queues/r", format!(r#"{{"onDead":"{long}"}}"#)),
            Case::new("PUT", "/v1/queues/r", format!(r#"{{"collisionIgnore":["{long}"]}}"#)),
        ],
    )
    .await;
    for problem in problems {
        let size = problem.to_string().len();
        assert!(size < 64 * 1024, "{size} bytes: {:.300}", problem.to_string());
    }
}

async fn only_plain_json_bodies_are_read(world: &World) {
    world.queue("q", json!({})).await;
    let body = json!({ "payload": 1 }).to_string();
    let of_kind = |kind: &str| {
        Case::publish(body.clone()).header("content-type", kind).is(415, "unsupported_media_type")
    };
    let coded = |coding: &str| {
        Case::publish(body.clone()).header("content-encoding", coding).is(415, "unsupported_media_type")
    };
    refused(
        world,
        [
            of_kind("text/plain"),
            of_kind("application/x-www-form-urlencoded"),
            of_kind("multipart/form-data; boundary=x"),
            of_kind("application/jsonp"),
            of_kind("application/xml; x=application/json"),
            of_kind(""),
            coded("gzip"),
            coded("br"),
            coded("deflate, gzip"),
            coded("x-unknown"),
        ],
    )
    .await;
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.api+json",
    ] {
        let headers = [("content-type", kind), ("content-encoding", "identity")];
        world.client.send(Method::POST, "/v1/queues/q/jobs", &headers, Some(body.clone())).await.expect(201);
    }
}
