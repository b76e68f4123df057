//! Paths, methods, names in paths, and parameters.

use http::Method;
use serde_json::json;

use super::{Case, fields, refused};
use crate::kit::{World, scenarios};

scenarios!(
    what_is_at_no_path_or_takes_no_such_method_is_told,
    names_in_paths_are_checked,
    listings_take_what_they_know_and_nothing_else,
    metacharacters_are_text,
);

async fn what_is_at_no_path_or_takes_no_such_method_is_told(world: &World) {
    world.queue("q", json!({})).await;
    let nowhere = [
        "/",
        "/v1",
        "/v2/queues",
        "/v1/queues/",
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
    let empty =
        ["jobs", "lease", "pause"].map(|rest| Case::new("POST", &format!("/v1/queues//{rest}"), "{}"));
    for problem in refused(world, cases.chain(empty)).await {
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
