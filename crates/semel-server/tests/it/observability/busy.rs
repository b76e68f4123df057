//! A bit of everything, so that every metric has something to show.

use axum::response::IntoResponse;
use http::StatusCode;
use semel_store::JobQuery;
use serde_json::json;

use crate::kit::{Worker, World, secs};

/// Publishes, duplicates, collisions, effects, failures, an expired lease, a hold, a dead letter and a call that fails.
pub(super) async fn a_bit_of_everything(world: &World) {
    let config = json!({ "maxAttempts": 2, "retry": { "base": 1, "jitter": "none" }, "breaker": { "failures": 9, "cooldown": 1 },
        "retention": { "dead": 604_800 }, "window": 60, "duplicates": { "limit": 1 } });
    let made = world.client.put("/v1/queues/q", config).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for (payload, status) in [(1, 201), (1, 200), (1, 200), (2, 200)] {
        let body = json!({ "payload": payload, "idempotencyKey": "k" });
        assert_eq!(world.client.post("/v1/queues/q/jobs", body).await.status, status);
    }
    for _ in 0..4 {
        world.publish("q", json!({ "payload": 3 })).await;
    }
    let leased = world.lease("q", 5).await;
    for (delivery, outcome) in leased.iter().zip(["applied", "replayed", "none"]) {
        world.settle("ack", delivery, json!({ "effect": { "outcome": outcome } })).await.expect(200);
    }
    world.settle("nack", &leased[3], json!({})).await.expect(200);
    world.advance(secs(61));
    world.until(leased[4]["id"].as_str().unwrap(), "pending").await;
    world.settle("ack", &leased[4], json!({})).await.problem(409, "stale_lease");
    let last = world.lease("q", 1).await;
    world.settle("nack", &last[0], json!({ "retryable": false })).await.expect(200);
    hold(world).await;
    let nonsense = JobQuery { limit: 0, ..JobQuery::default() };
    world.running.service().store.jobs(nonsense).await.unwrap_err();
}

async fn hold(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")], "").into_response());
    world.push_queue("push", &worker, json!({}), json!({})).await;
    let id = world.publish("push", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    world.until_job(id.as_str().unwrap(), |job| job["deferCount"] == 1).await;
}
