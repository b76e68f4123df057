//! What operators and their machines ask: counts, health, metrics, events, what an error means, what the API is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use axum::response::IntoResponse;
use http::StatusCode;
use semel_server::api::code::Code;
use serde_json::{Value, json};

use crate::kit::{Worker, World, eventually, scenarios, secs};

scenarios!(
    stats_count_jobs_where_they_stand,
    a_server_that_works_is_healthy_and_ready,
    a_server_that_ends_is_healthy_but_not_ready,
    metrics_have_their_names_and_count,
    metrics_tell_of_webhooks_and_holds,
    metrics_of_a_queue_that_is_gone_are_gone,
    events_tell_what_happens,
    events_of_one_queue_tell_of_no_other,
    events_end_with_the_server,
    every_error_has_a_page,
    the_api_describes_itself,
);

async fn ack(world: &World, leased: &Value, mut body: Value) {
    body["lease"] = leased["lease"].clone();
    world.client.post(&format!("/v1/jobs/{}/ack", leased["id"].as_str().unwrap()), body).await.expect(200);
}

async fn stats_count_jobs_where_they_stand(world: &World) {
    world.queue("q", json!({})).await;
    world.queue("idle", json!({})).await;
    for _ in 0..5 {
        world.publish("q", json!({ "payload": 1 })).await;
    }
    let cancelled = world.publish("q", json!({ "payload": 1, "delay": 60 })).await;
    world
        .client
        .post(&format!("/v1/jobs/{}/cancel", cancelled["id"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    let leased = world.lease("q", 3).await;
    ack(world, &leased[0], json!({})).await;
    let nack = json!({ "lease": leased[1]["lease"], "retryable": false });
    world
        .client
        .post(&format!("/v1/jobs/{}/nack", leased[1]["id"].as_str().unwrap()), nack)
        .await
        .expect(200);
    world.advance(secs(7));
    let stats = world.client.get("/v1/stats").await.expect(200);
    assert_eq!((&stats["now"], &stats["waiting"]), (&json!("2026-11-15T12:00:07.000Z"), &json!(0)));
    let counts = json!({ "pending": 2, "processing": 1, "awaitingAck": 0, "completed": 1, "dead": 1, "cancelled": 1,
        "oldestReady": "2026-11-15T12:00:00.000Z" });
    assert_eq!(stats["queues"]["q"], counts);
    assert_eq!(world.client.get("/v1/queues/q").await.expect(200)["counts"], counts);
    assert_eq!(
        (&stats["queues"]["idle"]["pending"], &stats["queues"]["idle"]["oldestReady"]),
        (&json!(0), &Value::Null)
    );
}

async fn a_server_that_works_is_healthy_and_ready(world: &World) {
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.client.get(path).await.expect(200), json!({ "status": "ok" }));
    }
}

async fn a_server_that_ends_is_healthy_but_not_ready(world: &World) {
    world.running.begin_stop();
    world.client.get("/healthz").await.expect(200);
    let problem = world.client.get("/readyz").await.problem(503, "shutting_down");
    assert_eq!(problem["retryable"], true);
}

/// What `/metrics` shows, by name with labels.
async fn metrics(world: &World) -> BTreeMap<String, f64> {
    let answer = world.client.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let lines = answer.text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| line.rsplit_once(' ').unwrap());
    series.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

async fn metrics_have_their_names_and_count(world: &World) {
    world
        .queue(
            "q",
            json!({ "retry": { "base": 1, "jitter": "none" }, "breaker": { "failures": 9, "cooldown": 1 } }),
        )
        .await;
    world.queue("picky", json!({ "onCollision": "reject", "requireKey": true })).await;
    for (queue, payload, status) in
        [("q", 1, 201), ("q", 1, 200), ("q", 2, 200), ("picky", 1, 201), ("picky", 2, 422)]
    {
        let body = json!({ "payload": payload, "idempotencyKey": "k" });
        assert_eq!(world.client.post(&format!("/v1/queues/{queue}/jobs"), body).await.status, status);
    }
    world.client.post("/v1/queues/picky/jobs", json!({ "payload": 1 })).await.problem(400, "key_required");
    for _ in 0..4 {
        world.publish("q", json!({ "payload": 3 })).await;
    }
    let leased = world.lease("q", 4).await;
    ack(world, &leased[0], json!({ "effect": { "outcome": "applied" } })).await;
    ack(world, &leased[1], json!({ "effect": { "outcome": "replayed" } })).await;
    ack(world, &leased[2], json!({})).await;
    let nack = json!({ "lease": leased[3]["lease"] });
    world
        .client
        .post(&format!("/v1/jobs/{}/nack", leased[3]["id"].as_str().unwrap()), nack)
        .await
        .expect(200);
    let picky = world.lease_one("picky").await;
    world.advance(secs(61));
    world.until(picky["id"].as_str().unwrap(), "pending").await;
    let found = metrics(world).await;
    for (name, value) in [
        (r#"semel_publishes_total{queue="q",outcome="created"}"#, 5.0),
        (r#"semel_publishes_total{queue="q",outcome="deduplicated"}"#, 1.0),
        (r#"semel_publishes_total{queue="q",outcome="collision"}"#, 1.0),
        (r#"semel_publishes_total{queue="picky",outcome="collision"}"#, 1.0),
        (r#"semel_publishes_total{queue="picky",outcome="rejected"}"#, 1.0),
        (r#"semel_job_duplicates_total{queue="q",door="publish"}"#, 2.0),
        (r#"semel_job_duplicates_total{queue="q",door="effect"}"#, 1.0),
        (r#"semel_deliveries_total{queue="q",outcome="done"}"#, 3.0),
        (r#"semel_deliveries_total{queue="q",outcome="failed"}"#, 1.0),
        (r#"semel_effects_total{queue="q",outcome="applied"}"#, 1.0),
        (r#"semel_effects_total{queue="q",outcome="replayed"}"#, 1.0),
        (r#"semel_effects_total{queue="q",outcome="unreported"}"#, 1.0),
        (r#"semel_lease_expirations_total{queue="picky"}"#, 1.0),
        (r#"semel_queue_depth{queue="q",status="pending"}"#, 2.0),
        (r#"semel_dead_letters{queue="q"}"#, 0.0),
        (r#"semel_breaker_state{queue="q"}"#, 0.0),
        (r#"semel_oldest_ready_age_seconds{queue="q"}"#, 61.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name} in {found:#?}");
    }
    for name in [
        "semel_commit_duration_seconds_count",
        "semel_commit_batch_size_count",
        "semel_retry_delay_seconds_count",
    ] {
        assert!(
            found.iter().any(|(known, value)| known.starts_with(name) && *value >= 1.0),
            "{name} in {found:#?}"
        );
    }
    let text = world.client.get("/metrics").await.text;
    assert!(!text.contains("semel_semel"), "{text}");
}

async fn metrics_tell_of_webhooks_and_holds(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")], "").into_response());
    world.queue("push", json!({ "delivery": { "type": "push", "url": worker.url() } })).await;
    let id = world.publish("push", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    let deferred = async || Some(world.job(id.as_str().unwrap()).await).filter(|job| job["deferCount"] == 1);
    eventually(deferred).await;
    world.queue("pull", json!({})).await;
    for (scope, wait) in [("job", 5), ("queue", 30)] {
        world.publish("pull", json!({ "payload": 1 })).await;
        let leased = world.lease_one("pull").await;
        world.settle("defer", &leased, json!({ "retryAfter": wait, "scope": scope })).await.expect(200);
    }
    let found = metrics(world).await;
    for (name, value) in [
        (r#"semel_holds_total{queue="push"}"#, 1.0),
        (r#"semel_holds_total{queue="pull"}"#, 1.0),
        (r#"semel_delivery_duration_seconds_count{queue="push"}"#, 1.0),
        (r#"semel_deliveries_total{queue="push",outcome="deferred"}"#, 1.0),
        (r#"semel_deliveries_total{queue="pull",outcome="deferred"}"#, 2.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name} in {found:#?}");
    }
}

async fn metrics_of_a_queue_that_is_gone_are_gone(world: &World) {
    world.queue("gone", json!({})).await;
    world.publish("gone", json!({ "payload": 1 })).await;
    ack(world, &world.lease_one("gone").await, json!({ "effect": { "outcome": "applied" } })).await;
    assert!(metrics(world).await.keys().any(|name| name.contains("\"gone\"")));
    assert_eq!(world.client.delete("/v1/queues/gone").await.status, 204);
    let left: Vec<_> = metrics(world).await.into_keys().filter(|name| name.contains("\"gone\"")).collect();
    assert!(left.is_empty(), "{left:?}");
}

async fn events_tell_what_happens(world: &World) {
    let mut events = world.events("/v1/events").await;
    world.queue("q", json!({ "maxAttempts": 1 })).await;
    assert_eq!(events.next().await.unwrap()["type"], "queue.changed");
    let body = json!({ "payload": { "card": "4111" }, "idempotencyKey": "secret-key" });
    let id = world.publish("q", body.clone()).await["id"].clone();
    let published = events.next().await.unwrap();
    assert_eq!(
        published,
        json!({ "type": "job.published", "at": "2026-11-15T12:00:00.000Z", "queue": "q", "job": id, "detail": null })
    );
    world.client.post("/v1/queues/q/jobs", body).await.expect(200);
    assert_eq!(events.next().await.unwrap()["type"], "job.deduplicated");
    let leased = world.lease_one("q").await;
    assert_eq!(events.next().await.unwrap()["type"], "job.leased");
    let nack = json!({ "lease": leased["lease"] });
    world.client.post(&format!("/v1/jobs/{}/nack", id.as_str().unwrap()), nack).await.expect(200);
    assert_eq!(events.next().await.unwrap()["type"], "job.dead");
    world.client.post(&format!("/v1/jobs/{}/replay", id.as_str().unwrap()), json!({})).await.expect(200);
    assert_eq!(events.next().await.unwrap()["type"], "job.replayed");
    ack(world, &world.lease_one("q").await, json!({})).await;
    assert_eq!(events.next_of("job.completed").await["job"], id);
    world.client.delete("/v1/queues/q/keys/secret-key").await.expect(200);
    let released = events.next().await.unwrap();
    assert_eq!(released["type"], "key.released");
    assert!(!released.to_string().contains("secret-key"), "an event carries no key");
}

async fn events_of_one_queue_tell_of_no_other(world: &World) {
    for queue in ["mine", "other"] {
        world.queue(queue, json!({})).await;
    }
    let mut events = world.events("/v1/events?queue=mine").await;
    world.publish("other", json!({ "payload": 1 })).await;
    let id = world.publish("mine", json!({ "payload": 1 })).await["id"].clone();
    assert_eq!(events.next().await.unwrap()["job"], id);
    world.client.get("/v1/events?colour=red").await.problem(400, "invalid");
    world.client.get("/v1/events?queue=..").await.problem(400, "invalid");
}

async fn events_end_with_the_server(world: &World) {
    let mut events = world.events("/v1/events").await;
    world.running.begin_stop();
    assert_eq!(events.next().await, None);
}

async fn every_error_has_a_page(world: &World) {
    for code in Code::ALL {
        let page = world.client.get(&format!("/errors/{}", code.name())).await;
        assert_eq!(page.status, 200, "{}", code.name());
        assert_eq!(page.headers["content-type"], "text/markdown; charset=utf-8");
        assert!(page.text.starts_with(&format!("# `{}`", code.name())), "{}", page.text);
    }
    let problem = world.client.get("/v1/jobs/none").await.problem(404, "job_not_found");
    let page = world.client.get(problem["type"].as_str().unwrap()).await;
    assert!(page.text.starts_with("# `job_not_found`"), "a problem's type leads to its page");
}

async fn the_api_describes_itself(world: &World) {
    let answer = world.client.get("/openapi.json").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.text.trim_end(), semel_server::api::openapi().trim_end());
    let api = answer.expect(200);
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"), "{}", api["openapi"]);
    let paths = api["paths"].as_object().unwrap();
    for (path, methods) in [
        ("/v1/queues/{queue}/jobs", vec!["post"]),
        ("/v1/queues/{queue}/jobs/batch", vec!["post"]),
        ("/v1/jobs/{id}", vec!["get"]),
        ("/v1/jobs", vec!["get"]),
        ("/v1/queues/{queue}/keys/{key}", vec!["get", "delete"]),
        ("/v1/jobs/{id}/ack", vec!["post"]),
        ("/v1/jobs/{id}/nack", vec!["post"]),
        ("/v1/jobs/{id}/defer", vec!["post"]),
        ("/v1/jobs/{id}/extend", vec!["post"]),
        ("/v1/settle", vec!["post"]),
        ("/v1/queues/{queue}/lease", vec!["post"]),
        ("/v1/queues/{queue}", vec!["put", "get", "delete"]),
        ("/v1/queues", vec!["get"]),
        ("/v1/queues/{queue}/pause", vec!["post"]),
        ("/v1/queues/{queue}/resume", vec!["post"]),
        ("/v1/queues/{queue}/secrets/rotate", vec!["post"]),
        ("/v1/queues/{queue}/dead", vec!["get"]),
        ("/v1/jobs/{id}/replay", vec!["post"]),
        ("/v1/queues/{queue}/dead/replay", vec!["post"]),
        ("/v1/jobs/{id}/cancel", vec!["post"]),
        ("/v1/schedules/{name}", vec!["put", "get", "delete"]),
        ("/v1/api-keys", vec!["post", "get"]),
        ("/v1/events", vec!["get"]),
        ("/v1/stats", vec!["get"]),
        ("/v1/nodes", vec!["get"]),
        ("/healthz", vec!["get"]),
        ("/readyz", vec!["get"]),
        ("/metrics", vec!["get"]),
    ] {
        for method in methods {
            assert!(paths[path].get(method).is_some(), "{method} {path}");
        }
    }
    let replay = paths.keys().find(|path| path.starts_with("/v1/replays/{")).unwrap();
    assert!(paths[replay].get("get").is_some() && paths[replay].get("delete").is_some());
}

/// The committed description is the one that is served. `SEMEL_BLESS=1` writes it anew.
#[test]
fn the_committed_openapi_file_is_what_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let served = semel_server::api::openapi();
    if std::env::var_os("SEMEL_BLESS").is_some() {
        fs::write(&path, &served).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == served,
        "docs/openapi.json differs from what is served: run SEMEL_BLESS=1 cargo nextest run -p semel-server openapi"
    );
}

mod dev {
    use semel_server::service::{AuthMode, Options};

    use super::*;

    scenarios!(with dev: a_publish_to_an_unknown_queue_makes_a_pull_queue);

    fn dev(_: &Path) -> Options {
        Options { dev: true, auth: AuthMode::Open, ..Options::default() }
    }

    async fn a_publish_to_an_unknown_queue_makes_a_pull_queue(world: &World) {
        assert!(world.lease("first", 1).await.is_empty(), "a worker may come before its queue");
        world.publish("first", json!({ "payload": 1 })).await;
        let batch = json!({ "jobs": [{ "payload": 1 }] });
        world.client.post("/v1/queues/second/jobs/batch", batch).await.expect(200);
        for queue in ["first", "second"] {
            let made = world.client.get(&format!("/v1/queues/{queue}")).await.expect(200);
            assert_eq!(made["delivery"]["type"], "pull");
            assert_eq!(world.lease(queue, 9).await.len(), 1);
        }
        let made = world.client.get("/v1/queues").await.expect(200);
        assert_eq!(made["queues"].as_array().unwrap().len(), 2);
    }
}
