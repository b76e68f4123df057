//! Pushing: what a webhook gets, how it knows who called, and what its answer means.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::kit::{Received, Worker, World, answer, scenarios, secs};

scenarios!(
    a_webhook_gets_everything_a_worker_needs,
    the_payload_is_delivered_byte_for_byte,
    a_delivery_is_signed_with_the_queues_secret,
    while_a_secret_rotates_two_sign,
    a_backlog_is_signed_when_its_queue_begins_to_push,
    a_worker_written_for_simpleq_finds_its_signature,
    a_change_of_the_queue_holds_for_the_next_publish,
    a_queue_that_no_longer_pushes_calls_nobody,
    a_delivery_belongs_to_the_trace_of_its_publish,
    a_malformed_trace_is_ignored,
    a_json_answer_is_kept_as_the_result,
    an_answer_that_is_no_json_or_too_large_is_not_kept,
    the_receipt_comes_in_a_header,
    a_publisher_may_wait_for_the_webhook,
    a_cancelled_job_is_not_brought_back_by_its_webhook,
);

/// The HMAC of some bytes, computed here and not by the code under test.
fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// The signature of a call by the rules of Standard Webhooks.
fn standard_signature(secret: &str, call: &Received) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let head = format!("{}.{}.", call.header("webhook-id"), call.header("webhook-timestamp"));
    format!("v1,{}", STANDARD.encode(hmac(&key, &[head.as_bytes(), &call.bytes])))
}

async fn rotated(world: &World, queue: &str, body: Value) -> String {
    let path = format!("/v1/queues/{queue}/secrets/rotate");
    world.client.post(&path, body).await.expect(200)["secret"].as_str().unwrap().to_owned()
}

/// Publishes with a header.
async fn publish_with(world: &World, path: &str, header: (&str, &str), body: Value) -> Value {
    let answer = world.client.send(Method::POST, path, &[header], Some(body.to_string())).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    answer.json
}

async fn a_webhook_gets_everything_a_worker_needs(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({ "maxAttempts": 7 })).await;
    let body = json!({
        "payload": { "order": 9482 }, "idempotencyKey": "order-9482", "group": "customer-1", "metadata": { "origin": "shop" },
    });
    let made = world.publish("q", body).await;
    let call = worker.call().await;
    let expected = json!({
        "id": made["id"], "queue": "q", "payload": { "order": 9482 }, "attempt": 1, "maxAttempts": 7, "deferCount": 0,
        "createdAt": made["createdAt"], "idempotencyKey": "order-9482", "group": "customer-1",
        "metadata": { "origin": "shop" },
        "lease": call.body["lease"], "deliveryId": call.body["deliveryId"], "deadline": call.body["deadline"],
    });
    assert_eq!(call.body, expected);
    assert!(call.body["lease"].is_string() && call.body["deliveryId"].is_string(), "{}", call.body);
    assert!(
        call.body["deadline"].as_str().unwrap() >= world.in_secs(15).as_str(),
        "the time-out fits: {}",
        call.body
    );
    assert_eq!(call.header("content-type"), "application/json");
    assert_eq!(call.header("idempotency-key"), "order-9482");
    assert_eq!(call.header("webhook-id"), made["id"].as_str().unwrap());
    assert_eq!(call.sent_at(), world.seconds());
    let job = world.until(call.id(), "completed").await;
    assert_eq!((&job["attempts"], &job["history"][0]["status"]), (&json!(1), &json!("success")));
    assert_eq!(job["history"][0]["webhookStatusCode"], 200);
}

async fn the_payload_is_delivered_byte_for_byte(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let payload = r#"{"b": 1.0,  "a":1e2, "z": 12345678901234567890123, "ä": "\u00e4\/", "a": null}"#;
    let body = format!(r#"{{ "payload": {payload} }}"#);
    world.client.send(Method::POST, "/v1/queues/q/jobs", &[], Some(body)).await.expect(201);
    let call = worker.call().await;
    let text = std::str::from_utf8(&call.bytes).unwrap();
    assert!(text.contains(payload), "{text}");
    assert!(call.headers.get("idempotency-key").is_none(), "there is no key to tell");
    assert_eq!((&call.body["idempotencyKey"], &call.body["group"]), (&Value::Null, &Value::Null));
}

async fn a_delivery_is_signed_with_the_queues_secret(world: &World) {
    let mut worker = Worker::start().await;
    for round in 0..10 {
        let queue = format!("q-{round}");
        world.push_queue(&queue, &worker, json!({}), json!({})).await;
        // A rotation without overlap leaves the new secret alone: the first one was never shown.
        let secret = rotated(world, &queue, json!({ "overlap": 0 })).await;
        world.publish(&queue, json!({ "payload": { "größe": round } })).await;
        let call = worker.call().await;
        assert_eq!(call.header("webhook-signature"), standard_signature(&secret, &call));
        assert!(call.headers.get("x-simpleq-signature").is_none(), "only where it is asked for");
    }
}

async fn while_a_secret_rotates_two_sign(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let old = rotated(world, "q", json!({ "overlap": 0 })).await;
    let new = rotated(world, "q", json!({ "overlap": 60 })).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let call = worker.call().await;
    let both = format!("{} {}", standard_signature(&new, &call), standard_signature(&old, &call));
    assert_eq!(call.header("webhook-signature"), both, "the newest first");
    world.advance(secs(60));
    world.publish("q", json!({ "payload": 2 })).await;
    let call = worker.call().await;
    assert_eq!(call.header("webhook-signature"), standard_signature(&new, &call), "the overlap is over");
}

async fn a_backlog_is_signed_when_its_queue_begins_to_push(world: &World) {
    let mut worker = Worker::start().await;
    for round in 0..10 {
        let queue = format!("q-{round}");
        world.queue(&queue, json!({})).await;
        world.publish(&queue, json!({ "payload": 1 })).await;
        let config = json!({ "delivery": { "type": "push", "url": worker.url() } });
        world.client.put(&format!("/v1/queues/{queue}"), config).await.expect(200);
        assert!(worker.call().await.header("webhook-signature").starts_with("v1,"));
    }
}

async fn a_worker_written_for_simpleq_finds_its_signature(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({ "signature": "simpleq" }), json!({})).await;
    let secret = rotated(world, "q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let call = worker.call().await;
    let hex: String =
        hmac(secret.as_bytes(), &[&call.bytes]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(call.header("x-simpleq-signature"), format!("sha256={hex}"));
    assert!(
        call.header("webhook-signature").starts_with(&standard_signature(&secret, &call)),
        "and the standard one"
    );
}

async fn a_change_of_the_queue_holds_for_the_next_publish(world: &World) {
    let mut workers = [Worker::start().await, Worker::start().await];
    world.push_queue("q", &workers[0], json!({}), json!({})).await;
    for round in 0..20 {
        let worker = &mut workers[round % 2];
        let config = json!({ "delivery": { "type": "push", "url": worker.url() } });
        world.client.put("/v1/queues/q", config).await.expect(200);
        world.publish("q", json!({ "payload": round })).await;
        assert_eq!(worker.call().await.body["payload"], round);
    }
}

async fn a_queue_that_no_longer_pushes_calls_nobody(world: &World) {
    let mut worker = Worker::start().await;
    world.queue("q", json!({})).await;
    for round in 0..20 {
        let push = json!({ "delivery": { "type": "push", "url": worker.url() } });
        world.client.put("/v1/queues/q", push).await.expect(200);
        let pushed = world.publish("q", json!({ "payload": round })).await;
        assert_eq!(
            worker.call().await.id(),
            pushed["id"].as_str().unwrap(),
            "it pushes, every time it is told to"
        );
        world.client.put("/v1/queues/q", json!({})).await.expect(200);
        let made = world.publish("q", json!({ "payload": round })).await;
        let leased = world.client.post("/v1/queues/q/lease", json!({ "wait": 30 })).await.expect(200);
        assert_eq!(leased["jobs"][0]["id"], made["id"], "round {round}");
        world.settle("ack", &leased["jobs"][0], json!({})).await.expect(200);
        assert!(worker.calls_so_far().is_empty(), "round {round}");
    }
}

async fn a_delivery_belongs_to_the_trace_of_its_publish(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    for (path, body) in [
        ("/v1/queues/q/jobs", json!({ "payload": 1 })),
        ("/v1/queues/q/jobs/batch", json!({ "jobs": [{ "payload": 1 }] })),
    ] {
        publish_with(world, path, ("traceparent", &parent), body).await;
        let call = worker.call().await;
        let parts: Vec<_> = call.header("traceparent").split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", trace, "01"), "{path}");
        assert_ne!(parts[2], "00f067aa0ba902b7", "a span of its own, below the publish's");
        assert_eq!(parts[2].len(), 16);
    }
}

async fn a_malformed_trace_is_ignored(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    for bad in
        ["", "00-zz-00-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", &"x".repeat(4000)]
    {
        publish_with(world, "/v1/queues/q/jobs", ("traceparent", bad), json!({ "payload": 1 })).await;
        assert!(worker.call().await.headers.get("traceparent").is_none(), "{bad}");
    }
}

/// The job of a publish whose webhook gave this answer.
async fn completed(
    world: &World,
    worker: &Worker,
    headers: &'static [(&'static str, &'static str)],
    body: &str,
) -> Value {
    let body = body.to_owned();
    worker.answers(move |_| answer(200, headers, &body));
    let made = world.publish("q", json!({ "payload": 1 })).await;
    world.until(made["id"].as_str().unwrap(), "completed").await
}

async fn a_json_answer_is_kept_as_the_result(world: &World) {
    let worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    for body in [r#"{"sum": 3}"#, "[1, 2]", "\"text\"", "7", "false"] {
        let job = completed(world, &worker, &[("content-type", "application/json")], body).await;
        assert_eq!(job["result"], serde_json::from_str::<Value>(body).unwrap());
    }
    let largest = format!("\"{}\"", "x".repeat(64 * 1024 - 2));
    assert_eq!(
        completed(world, &worker, &[], &largest).await["result"].as_str().unwrap().len(),
        64 * 1024 - 2
    );
}

async fn an_answer_that_is_no_json_or_too_large_is_not_kept(world: &World) {
    let worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let too_large = format!("\"{}\"", "x".repeat(64 * 1024 - 1));
    for body in ["", "OK", "{", &too_large] {
        let job = completed(world, &worker, &[], body).await;
        assert_eq!((&job["result"], &job["attempts"]), (&Value::Null, &json!(1)), "it is done all the same");
    }
}

async fn the_receipt_comes_in_a_header(world: &World) {
    let worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let applied = completed(world, &worker, &[("semel-effect", "applied")], "").await;
    assert_eq!(applied["effect"]["outcome"], "applied");
    assert_eq!(applied["history"][0]["effect"]["outcome"], "applied");
    let replayed = completed(world, &worker, &[("semel-effect", "replayed")], "").await;
    assert_eq!(replayed["effect"]["outcome"], "replayed");
    let none = completed(world, &worker, &[("semel-effect", "none")], "").await;
    assert_eq!(none["effect"]["outcome"], "none");
    for job in [
        completed(world, &worker, &[("semel-effect", "perhaps")], "").await,
        completed(world, &worker, &[], "").await,
    ] {
        assert_eq!(job["effect"], Value::Null, "what was not said is not guessed");
    }
}

async fn a_publisher_may_wait_for_the_webhook(world: &World) {
    let worker = Worker::start().await;
    worker.answers(|_| answer(200, &[("semel-effect", "applied")], r#"{"charged": true}"#));
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let job = world.client.post("/v1/queues/q/jobs?wait=60", json!({ "payload": 1 })).await;
    assert!(job.status.is_success(), "{}", job.text);
    assert_eq!(
        (&job.json["status"], &job.json["result"]),
        (&json!("completed"), &json!({ "charged": true }))
    );
}

async fn a_cancelled_job_is_not_brought_back_by_its_webhook(world: &World) {
    let mut worker = Worker::start().await;
    worker.hold_answers();
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let made = world.publish("q", json!({ "payload": 1 })).await;
    let call = worker.call().await;
    world.client.post(&format!("/v1/jobs/{}/cancel", call.id()), json!({})).await.expect(200);
    let cancelled = world.job(call.id()).await;
    worker.go_on();
    world.publish("q", json!({ "payload": 2 })).await;
    let other = worker.call().await;
    world.until(other.id(), "completed").await;
    assert_eq!(world.job(made["id"].as_str().unwrap()).await, cancelled);
    assert_eq!(cancelled["status"], "cancelled");
}
