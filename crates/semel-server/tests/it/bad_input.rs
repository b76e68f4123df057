//! Bad input: always a 4xx problem with its code, nothing changed, and the same connection usable afterwards.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::kit::{Line, World, scenarios};

scenarios!(
    text_that_is_no_json_is_refused,
    json_that_no_worker_could_read_is_refused,
    odd_json_is_kept_byte_for_byte,
    a_body_may_be_as_large_as_the_limit_and_no_larger,
    a_problem_is_not_larger_than_what_it_is_about,
    only_plain_json_bodies_are_read,
    what_is_at_no_path_or_takes_no_such_method_is_told,
    names_in_paths_are_checked,
    every_field_of_a_publish_is_checked,
    every_offending_field_is_named_at_once,
    keys_are_checked_wherever_they_come_from,
    a_batch_is_checked_as_a_whole_and_item_by_item,
    leases_have_limits,
    tokens_that_are_forged_or_of_another_job_settle_nothing,
    settles_are_checked,
    listings_take_what_they_know_and_nothing_else,
    metacharacters_are_text,
    settings_of_a_queue_are_checked,
    addresses_of_webhooks_are_checked,
);

/// A request that must be refused, and how.
struct Case {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    status: u16,
    code: &'static str,
}

impl Case {
    fn new(method: &str, path: &str, body: impl Into<Bytes>) -> Self {
        let method = method.parse().unwrap();
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.into(),
            status: 400,
            code: "invalid",
        }
    }

    fn publish(body: impl Into<Bytes>) -> Self {
        Self::new("POST", "/v1/queues/q/jobs", body)
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn is(mut self, status: u16, code: &'static str) -> Self {
        (self.status, self.code) = (status, code);
        self
    }
}

/// Everything that a bad request could have changed.
async fn state(world: &World) -> Value {
    let mut stats = world.client.get("/v1/stats").await.expect(200);
    stats.as_object_mut().unwrap().remove("waiting");
    let mut all = vec![stats];
    for path in ["/v1/queues", "/v1/jobs?limit=1000", "/v1/schedules", "/v1/replays", "/v1/api-keys"] {
        all.push(world.client.get(path).await.expect(200));
    }
    Value::Array(all)
}

/// Sends every case over one connection. Returns the problems.
async fn refused(world: &World, cases: impl IntoIterator<Item = Case>) -> Vec<Value> {
    let before = state(world).await;
    let mut line = world.line().await;
    let mut problems = Vec::new();
    for case in cases {
        problems.push(refuse(&mut line, case).await);
    }
    assert_eq!(state(world).await, before, "nothing changed");
    problems
}

async fn refuse(line: &mut Line, case: Case) -> Value {
    let headers: Vec<_> = case.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(100)]).into_owned();
    let words = format!("{} {} {shown}", case.method, &case.path[..case.path.len().min(100)]);
    let answer = line.send(case.method, &case.path, &headers, case.body).await;
    let found = (answer.status.as_u16(), answer.json["code"].as_str().unwrap_or_default().to_owned());
    assert_eq!(found, (case.status, case.code.to_owned()), "{words}: {}", answer.text);
    let problem = answer.problem(case.status, case.code);
    line.get("/healthz").await.expect(200);
    problem
}

fn fields(problem: &Value) -> Vec<&str> {
    problem["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect()
}

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

async fn what_is_at_no_path_or_takes_no_such_method_is_told(world: &World) {
    world.queue("q", json!({})).await;
    let nowhere = [
        "/",
        "/v1",
        "/v2/queues",
        "/v1/queues/",
        "/v1/queues//jobs",
        "/v1/queues/q/jobs/",
        "/v1/queues/q/nothing",
        "/v1/jobs/",
        "/healthz/",
        "/../etc/passwd",
        "/v1/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/errors/none",
    ];
    refused(world, nowhere.map(|path| Case::new("GET", path, "").is(404, "not_found"))).await;
    let long = format!("/{}", "a".repeat(8192));
    refused(world, [Case::new("GET", &long, "").is(404, "not_found")]).await;
    let methods = ["PATCH", "OPTIONS", "TRACE", "BREW", "get"];
    let odd = methods.map(|method| Case::new(method, "/v1/queues/q", "").is(405, "method_not_allowed"));
    refused(world, odd).await;
    refused(
        world,
        [
            Case::new("POST", "/v1/queues/q", "{}").is(405, "method_not_allowed"),
            Case::new("DELETE", "/v1/jobs", "").is(405, "method_not_allowed"),
            Case::new("GET", "/v1/queues/q/jobs", "").is(405, "method_not_allowed"),
            Case::new("PUT", "/v1/stats", "{}").is(405, "method_not_allowed"),
        ],
    )
    .await;
    let answer = world.line().await.send(Method::PATCH, "/v1/queues/q", &[], "").await;
    let allowed = answer.headers["allow"].to_str().unwrap().to_owned();
    assert!(["GET", "PUT", "DELETE"].iter().all(|method| allowed.contains(method)), "{allowed}");
}

async fn names_in_paths_are_checked(world: &World) {
    world.queue("q", json!({})).await;
    let long = "q".repeat(256);
    let longer = "q".repeat(8192);
    let bad = [
        "..",
        "%2e%2e",
        ".hidden",
        "%00",
        "a%00b",
        "%ff",
        "a%2fb",
        "a%5cb",
        "%F0%9F%A6%80",
        "%D7%A9",
        "a%20b",
        "a%0d%0ab",
        "-a",
        "a;b",
        "a'b",
        "a%25b",
        &long,
        &longer,
    ];
    let cases = bad.iter().flat_map(|name| {
        [
            ("POST", "/jobs"),
            ("POST", "/lease"),
            ("POST", "/jobs/batch"),
            ("PUT", ""),
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/pause"),
            ("GET", "/dead"),
        ]
        .map(|(method, rest)| Case::new(method, &format!("/v1/queues/{name}{rest}"), "{}"))
    });
    for problem in refused(world, cases).await {
        assert_eq!(fields(&problem), ["queue"]);
    }
    world.client.put(&format!("/v1/queues/{}", &long[1..]), json!({})).await.expect(201);
    let missing = [
        "POST /v1/queues/none/jobs",
        "POST /v1/queues/none/lease",
        "POST /v1/queues/none/jobs/batch",
        "GET /v1/queues/none",
        "DELETE /v1/queues/none",
        "POST /v1/queues/none/pause",
        "POST /v1/queues/none/secrets/rotate",
        "GET /v1/queues/none/dead",
        "POST /v1/queues/none/dead/replay",
    ];
    let bodies = |path: &str| {
        if path.ends_with("batch") {
            r#"{"jobs": [{"payload": 1}]}"#
        } else if path.ends_with("/jobs") {
            r#"{"payload": 1}"#
        } else {
            ""
        }
    };
    refused(
        world,
        missing.map(|request| {
            let (method, path) = request.split_once(' ').unwrap();
            Case::new(method, path, bodies(path)).is(404, "queue_not_found")
        }),
    )
    .await;
    for id in ["none", "job_", "job_0000000000000", "0", "%00", "..", "job_0123456789abc%00", &longer] {
        let verbs = ["/ack", "/nack", "/cancel", "/replay"]
            .map(|verb| Case::new("POST", &format!("/v1/jobs/{id}{verb}"), "").is(404, "job_not_found"));
        refused(world, verbs).await;
        refused(world, [Case::new("GET", &format!("/v1/jobs/{id}"), "").is(404, "job_not_found")]).await;
    }
    let key = |key: &str, verb| Case::new(verb, &format!("/v1/queues/q/keys/{key}"), "");
    refused(
        world,
        [
            key("none", "GET").is(404, "key_not_found"),
            key("none", "DELETE").is(404, "key_not_found"),
            key("%00", "GET"),
            key("%ff", "GET"),
            key(&longer, "GET"),
            key("a%0ab", "DELETE"),
        ],
    )
    .await;
}

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

async fn leases_have_limits(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let bad = [
        ("leaseSeconds", json!(0)),
        ("leaseSeconds", json!(0.5)),
        ("leaseSeconds", json!(-1)),
        ("leaseSeconds", json!(100.0 * 365.0 * 86_400.0)),
        ("max", json!(0)),
        ("max", json!(257)),
        ("max", json!(1_000_000)),
        ("max", json!(-1)),
        ("wait", json!(31)),
        ("wait", json!(-1)),
        ("wait", json!("long")),
        ("count", json!(1)),
    ];
    let cases = bad
        .iter()
        .map(|(field, value)| Case::new("POST", "/v1/queues/q/lease", json!({ *field: value }).to_string()));
    for (problem, (field, value)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{value}");
    }
    let leased = world.lease_one("q").await;
    let path = format!("/v1/jobs/{}/extend", leased["id"].as_str().unwrap());
    for seconds in [json!(0), json!(-1), json!(100.0 * 365.0 * 86_400.0), json!("x"), Value::Null] {
        let problems =
            refused(world, [Case::new("POST", &path, json!({ "seconds": seconds }).to_string())]).await;
        assert_eq!(fields(&problems[0]), ["seconds"], "{seconds}");
    }
    assert_eq!(world.job(leased["id"].as_str().unwrap()).await["status"], "processing");
}

async fn tokens_that_are_forged_or_of_another_job_settle_nothing(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..2 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let leased = world.lease("q", 2).await;
    let (mine, other) = (&leased[0], &leased[1]);
    let id = mine["id"].as_str().unwrap();
    let mut close = mine["lease"].as_str().unwrap().to_owned();
    let last = close.pop().unwrap();
    close.push(if last == '0' { '1' } else { '0' });
    let with = |lease: Value, verb: &str| {
        let body = json!({ "lease": lease, "retryAfter": 1, "seconds": 60 });
        Case::new("POST", &format!("/v1/jobs/{id}/{verb}"), body.to_string())
    };
    for verb in ["ack", "nack", "defer", "extend"] {
        refused(
            world,
            [
                with(other["lease"].clone(), verb).is(409, "stale_lease"),
                with(json!(close), verb).is(409, "stale_lease"),
                with(json!(""), verb),
                with(json!("lse_"), verb),
                with(json!("lse_'; DROP TABLE jobs; --"), verb),
                with(json!(format!("{close}{close}")), verb),
                with(mine["deliveryId"].clone(), verb),
                with(json!(7), verb),
            ],
        )
        .await;
    }
    let item = json!({ "id": id, "action": "ack", "lease": other["lease"] });
    let answer = world.client.post("/v1/settle", json!({ "items": [item] })).await.expect(200);
    assert_eq!(answer["results"][0]["code"], "stale_lease");
    world.client.post(&format!("/v1/jobs/{id}/ack"), json!({ "lease": mine["lease"] })).await.expect(200);
}

async fn settles_are_checked(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    let id = leased["id"].as_str().unwrap();
    let bad = [
        ("ack", json!({ "effect": "applied" }), "effect"),
        ("ack", json!({ "effect": { "outcome": "maybe" } }), "effect"),
        ("ack", json!({ "effect": { "outcome": "applied", "key": "k".repeat(256) } }), "effect.key"),
        ("ack", json!({ "result": "x".repeat(64 * 1024) }), "result"),
        ("ack", json!({ "colour": 1 }), "colour"),
        ("nack", json!({ "reason": "x".repeat(501) }), "reason"),
        ("nack", json!({ "retryable": "no" }), "retryable"),
        ("defer", json!({}), "retryAfter"),
        ("defer", json!({ "retryAfter": -1 }), "retryAfter"),
        ("defer", json!({ "retryAfter": 1e15 }), "retryAfter"),
        ("defer", json!({ "retryAfter": 1, "scope": "world" }), "scope"),
        ("extend", json!({}), "seconds"),
    ];
    let cases = bad
        .iter()
        .map(|(verb, body, _)| Case::new("POST", &format!("/v1/jobs/{id}/{verb}"), body.to_string()));
    for (problem, (verb, body, field)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{verb} {body}");
    }
    let items = |count: usize| json!({ "items": vec![json!({ "id": id, "action": "ack" }); count] });
    refused(world, [0, 1001].map(|count| Case::new("POST", "/v1/settle", items(count).to_string()))).await;
    let odd = json!({ "items": [{}, { "id": id }, { "id": id, "action": "explode" }, { "id": "none", "action": "ack" }, 1] });
    let answer = world.client.post("/v1/settle", odd).await.expect(200);
    let codes: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|result| result["code"].clone()).collect();
    assert_eq!(json!(codes), json!(["invalid", "invalid", "invalid", "invalid", "invalid_json"]));
    assert_eq!(world.job(id).await["status"], "processing");
}

async fn listings_take_what_they_know_and_nothing_else(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..3 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let page = world.client.get("/v1/jobs?limit=1").await.expect(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let tampered =
        format!("{}{}", &cursor[..cursor.len() - 1], if cursor.ends_with('0') { '1' } else { '0' });
    let queries = [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "limit=1.5",
        "status=lost",
        "status=",
        "from=yesterday",
        "to=1",
        "from=2026-11-16T00:00:00Z&to=2026-11-15T00:00:00Z",
        "cursor=",
        "cursor=x",
        "cursor=c1.job_0.0000",
        "queue=../q",
        "key=",
        "key=%00",
        "group=",
        "duplicated=0",
        "duplicated=-1",
        "duplicated=x",
        "colour=red",
        "Queue=q",
        "%ff=1",
    ];
    refused(world, queries.map(|query| Case::new("GET", &format!("/v1/jobs?{query}"), ""))).await;
    refused(world, [Case::new("GET", &format!("/v1/jobs?cursor={tampered}"), "")]).await;
    let problems = refused(world, [Case::new("GET", "/v1/jobs?limit=0&status=lost&colour=red", "")]).await;
    let mut named = fields(&problems[0]);
    named.sort_unstable();
    assert_eq!(named, ["colour", "limit", "status"], "every one that is wrong is named");
    for query in
        ["groupBy=colour", "groupBy=error&groupBy=error", "queue=q", "status=pending", "cursor=x", "limit=0"]
    {
        refused(world, [Case::new("GET", &format!("/v1/queues/q/dead?{query}"), "")]).await;
    }
    for query in ["", "?confirm=", "?confirm=other", "?confirm=q&confirm=q", "?confirm=q&colour=red"] {
        refused(world, [Case::new("DELETE", &format!("/v1/queues/q/dead{query}"), "")]).await;
    }
}

async fn metacharacters_are_text(world: &World) {
    world.queue("q", json!({})).await;
    let odd = [
        "' OR 1=1 --",
        "'; DROP TABLE jobs; --",
        "%' OR '%'='",
        "\\",
        "\"",
        "*",
        "$1",
        "{}",
        "<script>alert(1)</script>",
        "=1+1",
    ];
    for text in odd {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for filter in ["key", "group", "metadata.x"] {
            let found = world.client.get(&format!("/v1/jobs?{filter}={encoded}")).await.expect(200);
            assert_eq!(found["jobs"], json!([]), "{filter}={text}");
        }
        let named = world.client.get(&format!("/v1/jobs?metadata.{encoded}=x")).await.expect(200);
        assert_eq!(named["jobs"], json!([]), "metadata.{text}");
        let body =
            json!({ "payload": text, "idempotencyKey": text, "group": text, "metadata": { "x": text } });
        let id = world.publish("q", body).await["id"].clone();
        for filter in ["key", "group", "metadata.x"] {
            let found = world.client.get(&format!("/v1/jobs?{filter}={encoded}")).await.expect(200);
            assert_eq!(found["jobs"].as_array().unwrap().len(), 1, "{filter}={text}");
            assert_eq!(found["jobs"][0]["id"], id, "{filter}={text}");
        }
        let key = world.client.get(&format!("/v1/queues/q/keys/{encoded}")).await.expect(200);
        assert_eq!((&key["key"], &key["job"]["id"]), (&json!(text), &id));
    }
}

async fn settings_of_a_queue_are_checked(world: &World) {
    let push = |change: Value| {
        let mut delivery = json!({ "type": "push", "url": "https://worker.example/" });
        delivery.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({ "delivery": delivery })
    };
    let year = 365 * 86_400;
    let bad = [
        (json!({ "delivery": { "type": "pull", "leaseSeconds": 0 } }), "delivery.leaseSeconds"),
        (
            json!({ "delivery": { "type": "pull", "leaseSeconds": 100.0 * f64::from(year) } }),
            "delivery.leaseSeconds",
        ),
        (json!({ "delivery": { "type": "carrier pigeon" } }), "delivery"),
        (json!({ "delivery": { "type": "push" } }), "delivery.url"),
        (push(json!({ "timeout": 0 })), "delivery.timeout"),
        (push(json!({ "timeout": 901 })), "delivery.timeout"),
        (push(json!({ "ackTimeout": 0 })), "delivery.ackTimeout"),
        (push(json!({ "mode": "maybe" })), "delivery"),
        (push(json!({ "headers": { "x": "a\r\nb" } })), "delivery"),
        (json!({ "retry": { "factor": 0 } }), "retry.factor"),
        (json!({ "maxAttempts": 0 }), "maxAttempts"),
        (json!({ "concurrency": 0 }), "concurrency"),
        (json!({ "concurrency": -1 }), "concurrency"),
        (json!({ "rate": { "count": 0 } }), "rate.count"),
        (json!({ "rate": 5 }), "rate"),
        (json!({ "groupConcurrency": 0 }), "groupConcurrency"),
        (json!({ "breaker": { "failures": 0, "cooldown": 1 } }), "breaker.failures"),
        (json!({ "window": 2 * year }), "window"),
        (json!({ "window": "72h" }), "window"),
        (json!({ "keyPattern": "(" }), "keyPattern"),
        (json!({ "keyPattern": "a)|(b" }), "keyPattern"),
        (json!({ "keyPattern": "(a{1000}){1000}" }), "keyPattern"),
        (json!({ "onCollision": "ignore" }), "onCollision"),
        (json!({ "collisionIgnore": ["sentAt"] }), "collisionIgnore[0]"),
        (json!({ "onDead": "mourn" }), "onDead"),
        (json!({ "retention": { "completed": 2 * year } }), "retention.completed"),
        (json!({ "duplicates": { "limit": 0 } }), "duplicates.limit"),
        (json!({ "payloadLimit": 0 }), "payloadLimit"),
        (json!({ "payloadLimit": 1_000_000_000 }), "payloadLimit"),
        (json!({ "name": "other" }), "name"),
    ];
    let cases = bad.iter().map(|(body, _)| Case::new("PUT", "/v1/queues/q", body.to_string()));
    for (problem, (body, field)) in refused(world, cases).await.iter().zip(&bad) {
        assert_eq!(fields(problem), [*field], "{body}: {problem}");
    }
    world.client.get("/v1/queues/q").await.problem(404, "queue_not_found");
}

/// What an address leads to is looked at when it is called; what can never be called is refused at once.
async fn addresses_of_webhooks_are_checked(world: &World) {
    let long = format!("https://worker.example/{}", "a".repeat(2048));
    let urls = [
        "",
        "worker.example",
        "//worker.example/",
        "file:///etc/passwd",
        "ftp://worker.example/",
        "gopher://worker.example/",
        "javascript:alert(1)",
        "http://",
        "http:///jobs",
        "https://user@worker.example/",
        "https://user:secret@worker.example/",
        "http://worker.example:0/",
        "http://worker.example:65536/",
        "http://worker.example:x/",
        "http://worker.example:-1/",
        "http://[::1/",
        "http://a b/",
        "http://a\r\nHost: b/",
        "http://a\\@b/",
        "http://größe.example/",
        "http://a\u{0}/",
        &long,
    ];
    let body = |url: &str| json!({ "delivery": { "type": "push", "url": url } }).to_string();
    for problem in refused(world, urls.map(|url| Case::new("PUT", "/v1/queues/q", body(url)))).await {
        assert_eq!(fields(&problem), ["delivery.url"], "{problem}");
        assert!(!problem.to_string().contains("secret"), "a password is not repeated: {problem}");
    }
}
