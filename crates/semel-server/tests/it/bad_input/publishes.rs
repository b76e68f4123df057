//! Publishes, one by one and in batches.

use http::Method;
use serde_json::{Value, json};

use super::{Case, fields, refused};
use crate::kit::{World, scenarios};

scenarios!(
    every_field_of_a_publish_is_checked,
    every_offending_field_is_named_at_once,
    keys_are_checked_wherever_they_come_from,
    a_batch_is_checked_as_a_whole_and_item_by_item,
);

async fn every_field_of_a_publish_is_checked(world: &World) {
    world.queue("q", json!({})).await;
    let year = 365 * 24 * 3600;
    let bad: Vec<(&str, Value)> = vec![
        ("idempotencyKey", json!("")),
        ("idempotencyKey", json!("k".repeat(256))),
        ("idempotencyKey", json!("a\u{0}b")),
        ("idempotencyKey", json!("a\nb")),
        ("idempotencyKey", json!("\u{85}")),
        ("idempotencyKey", json!(1)),
        ("delay", json!(-1)),
        ("delay", json!(1.5)),
        ("delay", json!("5")),
        ("delay", json!(year + 1)),
        ("delay", json!(10 * year)),
        ("delay", json!(u64::MAX)),
        ("runAt", json!("tomorrow")),
        ("runAt", json!("2036-11-15T12:00:00Z")),
        ("runAt", json!("1969-12-31T23:59:59Z")),
        ("runAt", json!("2026-02-30T00:00:00Z")),
        ("runAt", json!(1_800_000_000)),
        ("priority", json!(101)),
        ("priority", json!(-101)),
        ("priority", json!(1.5)),
        ("priority", json!("high")),
        ("group", json!("")),
        ("group", json!("g".repeat(256))),
        ("group", json!("a\tb")),
        ("maxAttempts", json!(0)),
        ("maxAttempts", json!(-1)),
        ("maxAttempts", json!(1_000_000)),
        ("retry", json!({ "base": -1 })),
        ("retry", json!({ "strategy": "hope" })),
        ("retry", json!({ "colour": 1 })),
        ("timeout", json!(0)),
        ("timeout", json!(1e9)),
        ("window", json!(-1)),
        ("window", json!(2 * year)),
        ("metadata", json!({ "a": 1 })),
        ("metadata", json!({ "a": { "b": "c" } })),
        ("metadata", json!(["a"])),
        ("metadata", json!({ "": "x" })),
        ("metadata", json!({ "a": "x".repeat(1025) })),
        ("metadata", Value::Object((0..33).map(|n| (n.to_string(), json!("x"))).collect())),
        ("colour", json!("red")),
        ("Payload", json!(1)),
    ];
    let cases =
        bad.iter().map(|(field, value)| Case::publish(json!({ "payload": 1, *field: value }).to_string()));
    for (problem, (field, value)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{value}: {problem}");
    }
    for (text, field) in [
        (r#"{"payload": 1, "delay": 18446744073709551616}"#, "delay"),
        (r#"{"payload": 1, "delay": 1e999}"#, "delay"),
        (r#"{"payload": 1, "delay": -0}"#, "delay"),
        (r#"{"payload": 1, "window": 1e999}"#, "window"),
        (r#"{"payload": 1, "delay": 1, "runAt": "2026-11-16T00:00:00Z"}"#, "delay"),
        (r#"{"idempotencyKey": "k"}"#, "payload"),
        (r#"{"payload": 1, "payload": 2}"#, "body"),
        (r#"{"payload": 1, "delay": 1, "delay": 2}"#, "body"),
    ] {
        let problems = refused(world, [Case::publish(text)]).await;
        assert_eq!(fields(&problems[0]), [field], "{text}: {}", problems[0]);
    }
    let at_the_limits = json!({ "payload": 1, "idempotencyKey": "ö".repeat(255), "delay": year, "priority": -100, "group": "g".repeat(255),
        "metadata": { "a": "x".repeat(1024) }, "window": year, "maxAttempts": 1 });
    world.publish("q", at_the_limits).await;
    for wait in ["-1", "61", "1.5", "x", ""] {
        refused(world, [Case::new("POST", &format!("/v1/queues/q/jobs?wait={wait}"), r#"{"payload": 1}"#)])
            .await;
    }
}

async fn every_offending_field_is_named_at_once(world: &World) {
    world.queue("q", json!({})).await;
    let wrong = json!({ "delay": -1, "priority": 500, "group": "", "idempotencyKey": "", "colour": 1, "maxAttempts": 0 });
    let settings = json!({ "window": "long", "maxAttempts": 0, "concurrency": 0, "keyPattern": "(", "delivery": { "type": "push", "url": "file:///" } });
    let problems = refused(
        world,
        [Case::publish(wrong.to_string()), Case::new("PUT", "/v1/queues/r", settings.to_string())],
    )
    .await;
    for (problem, expected) in problems.iter().zip([
        vec!["colour", "delay", "group", "idempotencyKey", "maxAttempts", "payload", "priority"],
        vec!["concurrency", "delivery.url", "keyPattern", "maxAttempts", "window"],
    ]) {
        let mut named = fields(problem);
        named.sort_unstable();
        assert_eq!(named, expected, "{problem}");
    }
}

async fn keys_are_checked_wherever_they_come_from(world: &World) {
    world.queue("q", json!({})).await;
    let body = r#"{"payload": 1}"#;
    let with = |value: &str| Case::publish(body).header("idempotency-key", value);
    let long = "k".repeat(256);
    refused(
        world,
        [with(""), with("\"\""), with(&long), with("a\tb"), with("a").header("idempotency-key", "b")],
    )
    .await;
    let both = Case::publish(r#"{"payload": 1, "idempotencyKey": "a"}"#).header("idempotency-key", "b");
    refused(world, [both]).await;
    let mut line = world.line().await;
    let mut ids = Vec::new();
    for headers in [
        vec![("idempotency-key", "a")],
        vec![("idempotency-key", "\"a\"")],
        vec![("idempotency-key", "a"), ("idempotency-key", "\"a\"")],
    ] {
        ids.push(line.send(Method::POST, "/v1/queues/q/jobs", &headers, body).await.json["id"].clone());
    }
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

async fn a_batch_is_checked_as_a_whole_and_item_by_item(world: &World) {
    world.queue("q", json!({})).await;
    let jobs = |count: usize| json!({ "jobs": vec![json!({ "payload": 1 }); count] }).to_string();
    let batch = |body: String| Case::new("POST", "/v1/queues/q/jobs/batch", body);
    refused(
        world,
        [
            batch(jobs(0)),
            batch(jobs(1001)),
            batch("{}".into()),
            batch(r#"{"jobs": null}"#.into()),
            batch(r#"{"jobs": {"payload": 1}}"#.into()),
            batch(r#"{"jobs": [{"payload": 1}], "queue": "other"}"#.into()),
            batch(format!(r#"{{"jobs": [{{"payload": {}1}}]"#, "[".repeat(10))).is(400, "invalid_json"),
        ],
    )
    .await;
    let items = r#"{"jobs": [1, {"payload": 1e999}, {"payload": 2, "delay": -1}, {"payload": "ok"}, null, {"payload": "\ud800"}]}"#;
    let answer =
        world.client.send(Method::POST, "/v1/queues/q/jobs/batch", &[], Some(items.into())).await.expect(200);
    let codes: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|result| result["code"].clone()).collect();
    assert_eq!(json!(codes), json!(["invalid_json", "invalid", "invalid", null, "invalid_json", "invalid"]));
    assert_eq!(world.client.get("/v1/queues/q").await.expect(200)["counts"]["pending"], 1);
}
