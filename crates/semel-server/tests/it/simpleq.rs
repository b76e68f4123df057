//! A caller and a worker written for SimpleQ: they know only its fields, no lease tokens, and `{ "error": ... }`.

use axum::response::IntoResponse;
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::kit::{Worker, World, scenarios, secs};

scenarios!(
    a_publish_gets_what_it_knows,
    a_delayed_job_waits,
    a_job_shows_what_it_knows,
    a_webhook_gets_what_it_knows_and_can_check_it,
    a_webhook_that_answers_2xx_is_done,
    a_webhook_in_ack_mode_settles_without_a_token,
    a_nack_may_say_never_again,
    a_defer_burns_no_attempt,
    a_429_burns_no_attempt,
    an_error_is_read_from_error,
);

async fn push(world: &World, worker: &Worker, mode: &str) {
    let delivery = json!({ "type": "push", "url": worker.url(), "mode": mode, "signature": "simpleq" });
    world
        .queue(
            "q",
            json!({ "delivery": delivery, "retry": { "strategy": "fixed", "base": 5, "jitter": "none" } }),
        )
        .await;
}

async fn settle(world: &World, id: &Value, verb: &str, body: Value) -> Value {
    world.client.post(&format!("/v1/jobs/{}/{verb}", id.as_str().unwrap()), body).await.expect(200)
}

async fn a_publish_gets_what_it_knows(world: &World) {
    world.queue("q", json!({})).await;
    let body = json!({ "payload": { "to": "a@example.com" }, "idempotencyKey": "mail-1" });
    let made = world.publish("q", body.clone()).await;
    assert_eq!(
        (&made["status"], &made["createdAt"]),
        (&json!("pending"), &json!("2026-11-15T12:00:00.000Z"))
    );
    let again = world.client.post("/v1/queues/q/jobs", body).await.expect(200);
    assert_eq!(
        (&again["id"], &again["status"], &again["createdAt"]),
        (&made["id"], &made["status"], &made["createdAt"])
    );
}

async fn a_delayed_job_waits(world: &World) {
    world.queue("q", json!({})).await;
    let made = world.publish("q", json!({ "payload": 1, "delay": 30 })).await;
    let job = world.job(made["id"].as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["scheduledFor"]),
        (&json!("pending"), &json!("2026-11-15T12:00:30.000Z"))
    );
    assert!(world.lease("q", 1).await.is_empty());
    world.advance(secs(30));
    assert_eq!(world.lease_one("q").await["id"], made["id"]);
}

async fn a_job_shows_what_it_knows(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::INTERNAL_SERVER_ERROR, "out of paper").into_response());
    push(world, &worker, "standard").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    let failed = async || Some(world.job(id.as_str().unwrap()).await).filter(|job| job["attempts"] == 1);
    let job = crate::kit::eventually(async || failed().await.filter(|job| job["status"] == "pending")).await;
    assert!(job["lastError"].as_str().unwrap().contains("500"), "{job}");
    assert_eq!(
        (&job["maxAttempts"], &job["deferCount"], &job["completedAt"]),
        (&json!(10), &json!(0), &Value::Null)
    );
    let entry = &job["history"][0];
    assert_eq!(
        (&entry["attempt"], &entry["status"], &entry["webhookStatusCode"]),
        (&json!(1), &json!("failed"), &json!(500))
    );
    assert_eq!(entry["timestamp"], "2026-11-15T12:00:00.000Z");
    assert!(entry["durationMs"].is_number() && entry["error"].is_string(), "{entry}");
    worker.answers(|_| StatusCode::OK.into_response());
    world.advance(secs(5));
    let done = world.until(id.as_str().unwrap(), "completed").await;
    assert_eq!(
        (&done["history"][1]["status"], &done["completedAt"]),
        (&json!("success"), &json!("2026-11-15T12:00:05.000Z"))
    );
}

async fn a_webhook_gets_what_it_knows_and_can_check_it(world: &World) {
    let mut worker = Worker::start().await;
    push(world, &worker, "standard").await;
    let secret =
        world.client.post("/v1/queues/q/secrets/rotate", json!({})).await.expect(200)["secret"].clone();
    let id = world.publish("q", json!({ "payload": { "n": 1 } })).await["id"].clone();
    let call = worker.call().await;
    let known = ["id", "queue", "payload", "attempt", "maxAttempts", "deferCount", "createdAt"];
    let body: Vec<_> = known.iter().map(|name| call.body[name].clone()).collect();
    assert_eq!(json!(body), json!([id, "q", { "n": 1 }, 1, 10, 0, "2026-11-15T12:00:00.000Z"]));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_str().unwrap().as_bytes()).unwrap();
    mac.update(&call.bytes);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(call.headers["x-simpleq-signature"], format!("sha256={hex}").as_str());
}

async fn a_webhook_that_answers_2xx_is_done(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::ACCEPTED, "thanks").into_response());
    push(world, &worker, "standard").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    let job = world.until(id.as_str().unwrap(), "completed").await;
    assert_eq!((&job["attempts"], &job["result"]), (&json!(1), &Value::Null));
}

async fn a_webhook_in_ack_mode_settles_without_a_token(world: &World) {
    let mut worker = Worker::start().await;
    push(world, &worker, "ack").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    world.until(id.as_str().unwrap(), "awaiting_ack").await;
    let accepted = settle(world, &id, "ack", json!({})).await;
    assert_eq!((&accepted["id"], &accepted["accepted"]), (&id, &json!(true)));
    assert_eq!(world.job(id.as_str().unwrap()).await["status"], "completed");
    settle(world, &id, "ack", json!({})).await;
    let late = world.client.post(&format!("/v1/jobs/{}/nack", id.as_str().unwrap()), json!({})).await;
    assert_eq!(late.status, 409);
    assert!(late.json["error"].is_string());
}

async fn a_nack_may_say_never_again(world: &World) {
    let mut worker = Worker::start().await;
    push(world, &worker, "ack").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    world.until(id.as_str().unwrap(), "awaiting_ack").await;
    settle(world, &id, "nack", json!({ "reason": "paper jam" })).await;
    let job = world.job(id.as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["lastError"], &job["attempts"]),
        (&json!("pending"), &json!("paper jam"), &json!(1))
    );
    assert_eq!(job["history"][0]["status"], "nacked");
    world.advance(secs(5));
    worker.call().await;
    world.until(id.as_str().unwrap(), "awaiting_ack").await;
    settle(world, &id, "nack", json!({ "retryable": false, "reason": "no printer" })).await;
    let job = world.job(id.as_str().unwrap()).await;
    assert_eq!((&job["status"], &job["lastError"]), (&json!("dead"), &json!("no printer")));
}

async fn a_defer_burns_no_attempt(world: &World) {
    let mut worker = Worker::start().await;
    push(world, &worker, "ack").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    world.until(id.as_str().unwrap(), "awaiting_ack").await;
    settle(world, &id, "defer", json!({ "retryAfter": 30 })).await;
    let job = world.job(id.as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["deferCount"], &job["attempts"]),
        (&json!("pending"), &json!(1), &json!(0))
    );
    assert_eq!(job["history"][0]["status"], "deferred");
    world.advance(secs(30));
    let call = worker.call().await;
    assert_eq!((&call.body["attempt"], &call.body["deferCount"]), (&json!(1), &json!(1)));
}

async fn a_429_burns_no_attempt(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")], "").into_response());
    push(world, &worker, "standard").await;
    let id = world.publish("q", json!({ "payload": 1 })).await["id"].clone();
    worker.call().await;
    let deferred = async || Some(world.job(id.as_str().unwrap()).await).filter(|job| job["deferCount"] == 1);
    let job = crate::kit::eventually(deferred).await;
    assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)));
    worker.answers(|_| StatusCode::OK.into_response());
    world.advance(secs(30));
    let job = world.until(id.as_str().unwrap(), "completed").await;
    assert_eq!((&job["attempts"], &job["completedAt"]), (&json!(1), &json!("2026-11-15T12:00:30.000Z")));
}

async fn an_error_is_read_from_error(world: &World) {
    world.queue("q", json!({})).await;
    for (path, body, status) in [
        ("/v1/queues/none/jobs", json!({ "payload": 1 }), 404),
        ("/v1/queues/q/jobs", json!({}), 400),
        ("/v1/queues/q/jobs", json!({ "payload": 1, "delay": -1 }), 400),
        ("/v1/queues/q/jobs", json!({ "payload": "x".repeat(256 * 1024) }), 413),
        ("/v1/jobs/none/ack", json!({}), 404),
    ] {
        let answer = world.client.post(path, body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(answer.json["error"].as_str().is_some_and(|words| !words.is_empty()), "{}", answer.text);
    }
}
