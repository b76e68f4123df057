//! Ack mode: 2xx means received, and the worker settles out of band, in its time.

use serde_json::{Value, json};

use crate::kit::{Received, Worker, World, answer, millis, scenarios, secs};

scenarios!(
    a_received_job_waits_for_its_ack,
    a_body_and_a_receipt_of_the_webhook_do_not_count_yet,
    an_ack_may_come_before_the_webhook_has_answered,
    a_nack_out_of_band_is_retried,
    a_defer_out_of_band_burns_no_attempt,
    a_rejection_out_of_band_is_a_dead_letter,
    an_ack_that_does_not_come_is_a_failed_attempt,
    an_ack_that_does_not_come_may_make_a_dead_letter,
    a_heartbeat_makes_the_ack_time_out_later,
    an_ack_after_its_time_out_settles_nothing,
    a_webhook_that_fails_is_retried_as_in_standard_mode,
    a_received_job_counts_against_the_queues_concurrency,
);

/// A queue in ack mode with an ack time-out of 30 seconds and a wait of ten between attempts.
async fn queue_of(world: &World, worker: &Worker, mut delivery: Value) {
    delivery["mode"] = json!("ack");
    delivery["ackTimeout"] = json!(30);
    let retry = json!({ "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" });
    world.push_queue("q", worker, delivery, json!({ "retry": retry })).await;
}

/// A job that the worker has received.
async fn received(world: &World, worker: &mut Worker) -> Received {
    world.publish("q", json!({ "payload": 1 })).await;
    let call = worker.call().await;
    world.until(call.id(), "awaiting_ack").await;
    call
}

async fn a_received_job_waits_for_its_ack(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    let job = world.job(call.id()).await;
    assert_eq!(
        (&job["attempts"], &job["completedAt"], &job["history"]),
        (&json!(0), &Value::Null, &json!([]))
    );
    world.advance(millis(29_999));
    assert_eq!(world.job(call.id()).await["status"], "awaiting_ack");
    let said = json!({ "result": { "sum": 3 }, "effect": { "outcome": "applied", "key": "e" } });
    let answer = world.settle("ack", &call.body, said.clone()).await.expect(200);
    assert_eq!((&answer["id"], &answer["accepted"]), (&json!(call.id()), &json!(true)));
    let job = world.job(call.id()).await;
    assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &json!({ "sum": 3 })));
    assert_eq!(job["effect"], json!({ "outcome": "applied", "key": "e" }));
    world.settle("ack", &call.body, said).await.expect(200);
}

async fn a_body_and_a_receipt_of_the_webhook_do_not_count_yet(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(202, &[("semel-effect", "applied")], r#"{"early": true}"#));
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    world.settle_without_token("ack", &call.body, json!({})).await.expect(200);
    let job = world.job(call.id()).await;
    assert_eq!(
        (&job["result"], &job["effect"]),
        (&Value::Null, &Value::Null),
        "the ack says what became of it"
    );
}

async fn an_ack_may_come_before_the_webhook_has_answered(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    worker.hold_answers();
    world.publish("q", json!({ "payload": 1 })).await;
    let call = worker.call().await;
    world.settle("ack", &call.body, json!({ "result": 1 })).await.expect(200);
    let done = world.job(call.id()).await;
    assert_eq!(done["status"], "completed");
    worker.go_on();
    received(world, &mut worker).await;
    assert_eq!(world.job(call.id()).await, done, "the late 2xx changes nothing");
}

async fn a_nack_out_of_band_is_retried(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    let answer = world.settle("nack", &call.body, json!({ "reason": "no funds" })).await.expect(200);
    assert_eq!((&answer["status"], &answer["due"]), (&json!("pending"), &json!(world.in_secs(10))));
    let job = world.job(call.id()).await;
    assert_eq!((&job["history"][0]["status"], &job["lastError"]), (&json!("nacked"), &json!("no funds")));
    world.settle("ack", &call.body, json!({})).await.problem(409, "stale_lease");
    world.advance(secs(10));
    let again = worker.call().await;
    assert_eq!((again.id(), &again.body["attempt"]), (call.id(), &json!(2)));
    assert_ne!(again.body["lease"], call.body["lease"]);
}

async fn a_defer_out_of_band_burns_no_attempt(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    world.settle("defer", &call.body, json!({ "retryAfter": 7 })).await.expect(200);
    let job = world.job(call.id()).await;
    assert_eq!(
        (&job["status"], &job["attempts"], &job["deferCount"]),
        (&json!("pending"), &json!(0), &json!(1))
    );
    assert_eq!(world.look_at("q").await["heldUntil"], world.in_secs(7));
    let due = world.seconds() + 7;
    world.advance(secs(7));
    let again = worker.call().await;
    assert_eq!(
        (&again.body["attempt"], &again.body["deferCount"], again.sent_at()),
        (&json!(1), &json!(1), due)
    );
}

async fn a_rejection_out_of_band_is_a_dead_letter(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    let answer = world.settle("nack", &call.body, json!({ "retryable": false })).await.expect(200);
    assert_eq!(answer["status"], "dead");
}

async fn an_ack_that_does_not_come_is_a_failed_attempt(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({ "ackTimeoutAction": "retry" })).await;
    let call = received(world, &mut worker).await;
    world.advance(secs(30));
    let job = world.until(call.id(), "pending").await;
    assert_eq!((&job["attempts"], &job["history"][0]["status"]), (&json!(1), &json!("expired")));
    world.advance(secs(10));
    assert_eq!(worker.call().await.body["attempt"], 2);
}

async fn an_ack_that_does_not_come_may_make_a_dead_letter(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({ "ackTimeoutAction": "dead" })).await;
    let call = received(world, &mut worker).await;
    world.advance(millis(29_999));
    assert_eq!(world.job(call.id()).await["status"], "awaiting_ack");
    world.advance(millis(1));
    let job = world.until(call.id(), "dead").await;
    assert_eq!((&job["attempts"], &job["history"][0]["status"]), (&json!(1), &json!("expired")));
}

async fn a_heartbeat_makes_the_ack_time_out_later(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    for _ in 0..3 {
        world.advance(secs(25));
        let kept = world.settle("extend", &call.body, json!({ "seconds": 30 })).await.expect(200);
        assert_eq!(kept["deadline"], world.in_secs(30));
    }
    assert_eq!(world.job(call.id()).await["status"], "awaiting_ack");
    world.settle("ack", &call.body, json!({})).await.expect(200);
}

async fn an_ack_after_its_time_out_settles_nothing(world: &World) {
    let mut worker = Worker::start().await;
    queue_of(world, &worker, json!({})).await;
    let call = received(world, &mut worker).await;
    world.advance(secs(30));
    world.until(call.id(), "pending").await;
    world.settle("ack", &call.body, json!({})).await.problem(409, "stale_lease");
    world.advance(secs(10));
    let again = worker.call().await;
    let before = world.until(call.id(), "awaiting_ack").await;
    world.settle("ack", &call.body, json!({})).await.problem(409, "stale_lease");
    assert_eq!(world.job(call.id()).await, before);
    world.settle("ack", &again.body, json!({})).await.expect(200);
}

async fn a_webhook_that_fails_is_retried_as_in_standard_mode(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|call| answer(if call.body["attempt"] == 1 { 500 } else { 200 }, &[], ""));
    queue_of(world, &worker, json!({})).await;
    let made = world.publish("q", json!({ "payload": 1 })).await;
    worker.call().await;
    let job = world.until_job(made["id"].as_str().unwrap(), |job| job["attempts"] == 1).await;
    assert_eq!((&job["status"], &job["history"][0]["webhookStatusCode"]), (&json!("pending"), &json!(500)));
    world.advance(secs(10));
    worker.call().await;
    world.until(made["id"].as_str().unwrap(), "awaiting_ack").await;
}

async fn a_received_job_counts_against_the_queues_concurrency(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({ "mode": "ack" }), json!({ "concurrency": 1 })).await;
    let first = received(world, &mut worker).await;
    let acked_at = world.seconds() + 5;
    world.publish("q", json!({ "payload": 2 })).await;
    assert_eq!(world.look_at("q").await["counts"]["pending"], 1);
    world.advance(secs(5));
    world.settle("ack", &first.body, json!({})).await.expect(200);
    let second = worker.call().await;
    assert_eq!((&second.body["payload"], second.sent_at()), (&json!(2), acked_at), "an ack frees the slot");
}
