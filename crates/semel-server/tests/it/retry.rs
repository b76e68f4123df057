//! Attempts that fail: when the next one goes out, when there is none, and what counts as a failure.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::kit::{Worker, World, answer, millis, scenarios, secs};

scenarios!(
    a_failed_attempt_is_repeated_after_the_same_wait,
    the_waits_of_an_exponential_backoff_grow_to_their_cap,
    jitter_shortens_a_wait_and_never_lengthens_it,
    after_the_last_attempt_a_job_is_dead,
    a_job_may_have_its_own_attempts_and_waits,
    an_endpoint_that_is_gone_makes_a_dead_letter,
    a_worker_that_wants_no_retry_makes_a_dead_letter,
    any_other_answer_is_a_failed_attempt,
    a_webhook_that_does_not_answer_in_time_has_failed,
    an_answer_after_the_time_out_changes_nothing,
    a_refused_connection_is_a_failed_attempt,
    a_broken_connection_is_a_failed_attempt,
);

/// A wait of ten seconds between attempts, to the millisecond.
fn steady() -> Value {
    json!({ "retry": { "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" } })
}

async fn published(world: &World, queue: &str) -> String {
    world.publish(queue, json!({ "payload": 1, "idempotencyKey": "k" })).await["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn a_failed_attempt_is_repeated_after_the_same_wait(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|call| answer(if call.body["attempt"] == 3 { 200 } else { 500 }, &[], ""));
    world.push_queue("q", &worker, json!({}), steady()).await;
    let id = published(world, "q").await;
    let (start, mut deliveries) = (world.seconds(), Vec::new());
    for attempt in 1..=3_u64 {
        let call = worker.call().await;
        assert_eq!((call.id(), &call.body["attempt"]), (id.as_str(), &json!(attempt)));
        assert_eq!(call.header("webhook-id"), id, "the same on every retry");
        assert_eq!(call.header("idempotency-key"), "k");
        assert_eq!(call.sent_at(), start + (attempt - 1) * 10, "at its time");
        deliveries.push((call.body["deliveryId"].to_string(), call.body["lease"].to_string()));
        if attempt < 3 {
            let job = world.until(&id, "pending").await;
            assert_eq!(
                (&job["attempts"], &job["scheduledFor"]),
                (&json!(attempt), &json!(world.in_secs(10)))
            );
            world.advance(millis(9999));
            assert_eq!(world.job(&id).await["status"], "pending", "never before its time");
            world.advance(millis(1));
        }
    }
    let job = world.until(&id, "completed").await;
    let history: Vec<_> = job["history"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
    assert_eq!(history, ["failed", "failed", "success"]);
    deliveries.dedup_by(|a, b| a.0 == b.0 || a.1 == b.1);
    assert_eq!(deliveries.len(), 3, "each delivery has its own name and token");
}

async fn the_waits_of_an_exponential_backoff_grow_to_their_cap(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(500, &[], ""));
    let retry = json!({ "strategy": "exponential", "base": 2, "factor": 3, "cap": 15, "jitter": "none" });
    world.push_queue("q", &worker, json!({}), json!({ "retry": retry, "maxAttempts": 5 })).await;
    let id = published(world, "q").await;
    for wait in [2, 6, 15, 15] {
        let sent_at = worker.call().await.sent_at();
        let job = world.until(&id, "pending").await;
        assert_eq!((sent_at, &job["scheduledFor"]), (world.seconds(), &json!(world.in_secs(wait))));
        world.advance(secs(wait));
    }
    worker.call().await;
    world.until(&id, "dead").await;
}

async fn jitter_shortens_a_wait_and_never_lengthens_it(world: &World) {
    world.queue("q", json!({ "retry": { "strategy": "fixed", "base": 1000, "cap": 1000 } })).await;
    let (now, most) = (world.in_secs(0), world.in_secs(1000));
    let mut dues = Vec::new();
    for n in 0..20 {
        world.publish("q", json!({ "payload": n })).await;
        let leased = world.lease_one("q").await;
        let due =
            world.settle("nack", &leased, json!({})).await.expect(200)["due"].as_str().unwrap().to_owned();
        assert!((now.as_str()..=most.as_str()).contains(&due.as_str()), "{now} <= {due} <= {most}");
        dues.push(due);
    }
    dues.sort_unstable();
    dues.dedup();
    assert!(dues.len() > 10, "jobs that failed together do not come back together: {dues:?}");
}

async fn after_the_last_attempt_a_job_is_dead(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(502, &[], "bad gateway"));
    let mut config = steady();
    config["maxAttempts"] = json!(3);
    world.push_queue("q", &worker, json!({}), config).await;
    let id = published(world, "q").await;
    for attempt in 1..=3 {
        let call = worker.call().await;
        assert_eq!((&call.body["attempt"], &call.body["maxAttempts"]), (&json!(attempt), &json!(3)));
        world.until_job(&id, |job| job["attempts"] == attempt).await;
        world.advance(secs(10));
    }
    let job = world.job(&id).await;
    assert_eq!((&job["status"], &job["attempts"], &job["payload"]), (&json!("dead"), &json!(3), &json!(1)));
    assert!(job["lastError"].as_str().unwrap().contains("502"), "{job}");
    for (entry, attempt) in job["history"].as_array().unwrap().iter().zip(1..) {
        assert_eq!((&entry["attempt"], &entry["webhookStatusCode"]), (&json!(attempt), &json!(502)));
        assert!(entry["durationMs"].is_u64() && entry["timestamp"].is_string(), "{entry}");
    }
    assert_eq!(world.client.get("/v1/queues/q/dead").await.expect(200)["jobs"][0]["id"], id);
    world.advance(secs(3600));
    published_other_arrives_first(world, &mut worker).await;
}

/// A job published now is the next call: nothing of what came before goes out again.
async fn published_other_arrives_first(world: &World, worker: &mut Worker) {
    let other = world.publish("q", json!({ "payload": "other" })).await;
    assert_eq!(worker.call().await.id(), other["id"].as_str().unwrap());
}

async fn a_job_may_have_its_own_attempts_and_waits(world: &World) {
    world.queue("q", steady()).await;
    let retry = json!({ "strategy": "fixed", "base": 3, "cap": 3, "jitter": "none" });
    world.publish("q", json!({ "payload": 1, "maxAttempts": 2, "retry": retry })).await;
    let first = world.lease_one("q").await;
    assert_eq!(first["maxAttempts"], 2);
    let answer = world.settle("nack", &first, json!({})).await.expect(200);
    assert_eq!(answer["due"], world.in_secs(3));
    world.advance(secs(3));
    let second = world.lease_one("q").await;
    assert_eq!(world.settle("nack", &second, json!({})).await.expect(200)["status"], "dead");
}

async fn an_endpoint_that_is_gone_makes_a_dead_letter(world: &World) {
    let worker = Worker::start().await;
    worker.answers(|_| answer(410, &[], ""));
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let id = published(world, "q").await;
    let job = world.until(&id, "dead").await;
    assert_eq!((&job["attempts"], &job["history"][0]["webhookStatusCode"]), (&json!(1), &json!(410)));
}

async fn a_worker_that_wants_no_retry_makes_a_dead_letter(world: &World) {
    let worker = Worker::start().await;
    for status in [400, 500, 503] {
        worker.answers(move |_| answer(status, &[("semel-retry", "no")], ""));
        let queue = format!("q-{status}");
        world.push_queue(&queue, &worker, json!({}), json!({})).await;
        let id = published(world, &queue).await;
        let job = world.until(&id, "dead").await;
        assert_eq!((&job["attempts"], &job["history"][0]["webhookStatusCode"]), (&json!(1), &json!(status)));
    }
}

async fn any_other_answer_is_a_failed_attempt(world: &World) {
    let worker = Worker::start().await;
    for status in [302, 400, 401, 404, 409, 500, 502, 504] {
        worker.answers(move |_| answer(status, &[("retry-after", "1")], r#"{"result": 1}"#));
        let queue = format!("q-{status}");
        world.push_queue(&queue, &worker, json!({}), steady()).await;
        let id = published(world, &queue).await;
        let job = world.until_job(&id, |job| job["attempts"] == 1).await;
        assert_eq!((&job["status"], &job["deferCount"]), (&json!("pending"), &json!(0)), "{status}");
        assert_eq!(
            job["scheduledFor"],
            world.in_secs(10),
            "{status}: the queue's wait, whatever the answer says"
        );
        assert_eq!(job["history"][0]["webhookStatusCode"], status);
        assert_eq!(job["result"], Value::Null);
    }
}

/// The only attempt of a job, failed without an answer.
async fn failed_without_an_answer(world: &World, queue: &str, id: &str, words: &str) {
    let job = world.until_job(id, |job| job["attempts"] == 1).await;
    assert_eq!(
        (&job["status"], &job["history"][0]["status"]),
        (&json!("pending"), &json!("failed")),
        "{queue}"
    );
    assert_eq!(job["history"][0]["webhookStatusCode"], Value::Null);
    assert!(job["lastError"].as_str().unwrap().contains(words), "{job}");
    assert_eq!(job["scheduledFor"], world.in_secs(10));
}

async fn a_webhook_that_does_not_answer_in_time_has_failed(world: &World) {
    let mut worker = Worker::start().await;
    worker.hold_answers();
    world.push_queue("set", &worker, json!({ "timeout": 1 }), steady()).await;
    let id = published(world, "set").await;
    worker.call().await;
    failed_without_an_answer(world, "set", &id, "in time").await;
    world.push_queue("said", &worker, json!({}), steady()).await;
    let body = json!({ "payload": 1, "timeout": 1 });
    let id = world.publish("said", body).await["id"].as_str().unwrap().to_owned();
    worker.call().await;
    failed_without_an_answer(world, "said", &id, "in time").await;
}

async fn an_answer_after_the_time_out_changes_nothing(world: &World) {
    let mut worker = Worker::start().await;
    worker.hold_answers();
    world.push_queue("q", &worker, json!({ "timeout": 1 }), steady()).await;
    let id = published(world, "q").await;
    worker.call().await;
    let failed = world.until_job(&id, |job| job["attempts"] == 1).await;
    worker.go_on();
    published_other_arrives_first(world, &mut worker).await;
    assert_eq!(world.job(&id).await, failed, "200 came too late");
    world.advance(secs(10));
    assert_eq!(worker.call().await.body["attempt"], 2);
    world.until(&id, "completed").await;
}

/// A push queue to an address.
async fn queue_to(world: &World, queue: &str, address: SocketAddr) {
    let mut config = steady();
    config["delivery"] = json!({ "type": "push", "url": format!("http://{address}/hook") });
    world.queue(queue, config).await;
}

async fn a_refused_connection_is_a_failed_attempt(world: &World) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    queue_to(world, "q", address).await;
    let id = published(world, "q").await;
    failed_without_an_answer(world, "q", &id, "refused").await;
}

async fn a_broken_connection_is_a_failed_attempt(world: &World) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    queue_to(world, "q", listener.local_addr().unwrap()).await;
    let id = published(world, "q").await;
    let (mut stream, _) = listener.accept().await.unwrap();
    assert!(stream.read(&mut [0; 64]).await.unwrap() > 0, "the request came");
    drop(stream);
    failed_without_an_answer(world, "q", &id, "broke").await;
}
