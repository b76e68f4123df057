//! Pulling: a worker leases, waits for jobs, and keeps them longer.

use serde_json::{Value, json};

use crate::kit::{Answer, Client, World, millis, scenarios, secs, within};

scenarios!(
    a_lease_carries_everything_a_worker_needs,
    a_lease_takes_at_most_what_was_asked_for,
    a_lease_of_a_senseless_size_is_refused,
    a_lease_lasts_as_long_as_was_asked_for,
    a_worker_that_waits_is_woken_by_a_publish,
    a_worker_that_waits_is_woken_when_a_job_is_due,
    a_worker_that_waits_is_woken_when_a_lease_ran_out,
    a_wait_for_nothing_ends_empty,
    leasing_from_an_unknown_queue_is_an_error,
    a_heartbeat_keeps_the_job,
    an_extension_needs_a_sensible_time,
    a_lease_that_ran_out_cannot_be_extended,
);

/// A wait of ten seconds between attempts, to the millisecond.
fn steady() -> Value {
    json!({ "retry": { "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" } })
}

/// No wait between attempts.
fn at_once() -> Value {
    json!({ "retry": { "strategy": "fixed", "base": 0, "cap": 0, "jitter": "none" } })
}

/// Leases in the background, and returns when the worker waits.
async fn waiting_worker(world: &World, queue: &str) -> tokio::task::JoinHandle<Answer> {
    let (client, path): (Client, _) = (world.client.clone(), format!("/v1/queues/{queue}/lease"));
    let worker = tokio::spawn(async move { client.post(&path, json!({ "wait": 30 })).await });
    world.until_somebody_waits(queue).await;
    worker
}

async fn leased_by(worker: tokio::task::JoinHandle<Answer>) -> Value {
    let answer = within(worker).await.unwrap().expect(200);
    assert_eq!(answer["jobs"].as_array().unwrap().len(), 1, "{answer}");
    answer["jobs"][0].clone()
}

async fn a_lease_carries_everything_a_worker_needs(world: &World) {
    world.queue("q", json!({ "maxAttempts": 7 })).await;
    let body = json!({
        "payload": { "order": 9482 }, "idempotencyKey": "order-9482", "group": "customer-1", "metadata": { "origin": "shop" },
    });
    let made = world.publish("q", body).await;
    let leased = world.lease_one("q").await;
    let expected = json!({
        "id": made["id"], "queue": "q", "payload": { "order": 9482 }, "attempt": 1, "maxAttempts": 7, "deferCount": 0,
        "createdAt": made["createdAt"], "idempotencyKey": "order-9482", "group": "customer-1",
        "metadata": { "origin": "shop" }, "deadline": world.in_secs(60),
        "lease": leased["lease"], "deliveryId": leased["deliveryId"],
    });
    assert_eq!(leased, expected);
    assert!(leased["lease"].is_string() && leased["deliveryId"].is_string(), "{leased}");
    assert_eq!(world.job(made["id"].as_str().unwrap()).await["status"], "processing");
}

async fn a_lease_takes_at_most_what_was_asked_for(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..3 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let first = world.lease("q", 2).await;
    assert_eq!(first.iter().map(|job| &job["payload"]).collect::<Vec<_>>(), [0, 1]);
    assert_ne!(first[0]["lease"], first[1]["lease"], "each delivery has its own token");
    let rest = world.lease("q", 256).await;
    assert_eq!(rest.iter().map(|job| &job["payload"]).collect::<Vec<_>>(), [2]);
    assert!(world.lease("q", 256).await.is_empty(), "what is leased is nobody else's");
}

async fn a_lease_of_a_senseless_size_is_refused(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    for (body, field) in [
        (json!({ "max": 0 }), "max"),
        (json!({ "max": 257 }), "max"),
        (json!({ "wait": 31 }), "wait"),
        (json!({ "leaseSeconds": 0 }), "leaseSeconds"),
        (json!({ "leaseSeconds": 3_155_760_000_u64 }), "leaseSeconds"),
    ] {
        let problem = world.client.post("/v1/queues/q/lease", body.clone()).await.problem(400, "invalid");
        assert_eq!(problem["violations"][0]["field"], field, "{body}");
    }
    let all_wrong = json!({ "max": 0, "wait": 31, "leaseSeconds": 0 });
    let problem = world.client.post("/v1/queues/q/lease", all_wrong).await.problem(400, "invalid");
    assert_eq!(
        problem["violations"].as_array().unwrap().len(),
        3,
        "every offending field is named at once: {problem}"
    );
    world.lease_one("q").await;
}

async fn a_lease_lasts_as_long_as_was_asked_for(world: &World) {
    let mut config = steady();
    config["delivery"] = json!({ "type": "pull", "leaseSeconds": 30 });
    world.queue("q", config).await;
    world.publish("q", json!({ "payload": 1 })).await;
    world.publish("q", json!({ "payload": 2 })).await;
    let usual = world.lease_one("q").await;
    assert_eq!(usual["deadline"], world.in_secs(30), "the queue's lease");
    let answer = world.client.post("/v1/queues/q/lease", json!({ "leaseSeconds": 5 })).await.expect(200);
    let short = &answer["jobs"][0];
    assert_eq!(short["deadline"], world.in_secs(5));
    let id = short["id"].as_str().unwrap();
    world.advance(millis(4999));
    assert_eq!(world.job(id).await["status"], "processing", "a lease lasts to its end");
    world.advance(millis(1));
    let job = world.until(id, "pending").await;
    assert_eq!((&job["attempts"], &job["history"][0]["status"]), (&json!(1), &json!("expired")));
    assert_eq!(job["scheduledFor"], world.in_secs(10), "a lease that ran out is retried like a failure");
    assert_eq!(world.job(usual["id"].as_str().unwrap()).await["status"], "processing");
}

async fn a_worker_that_waits_is_woken_by_a_publish(world: &World) {
    world.queue("q", json!({})).await;
    let worker = waiting_worker(world, "q").await;
    let made = world.publish("q", json!({ "payload": 1 })).await;
    assert_eq!(leased_by(worker).await["id"], made["id"]);
}

async fn a_worker_that_waits_is_woken_when_a_job_is_due(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1, "delay": 60 })).await;
    let due = world.in_secs(60 + 60);
    let worker = waiting_worker(world, "q").await;
    world.advance(millis(59_999));
    assert!(world.lease("q", 1).await.is_empty());
    world.advance(millis(1));
    assert_eq!(leased_by(worker).await["deadline"], due, "leased when it was due, not before");
}

async fn a_worker_that_waits_is_woken_when_a_lease_ran_out(world: &World) {
    world.queue("q", at_once()).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let first = world.lease_one("q").await;
    let worker = waiting_worker(world, "q").await;
    world.advance(secs(60));
    let second = leased_by(worker).await;
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
}

async fn a_wait_for_nothing_ends_empty(world: &World) {
    world.queue("q", json!({})).await;
    let answer = within(world.client.post("/v1/queues/q/lease", json!({ "wait": 1 }))).await.expect(200);
    assert_eq!(answer, json!({ "jobs": [] }));
}

async fn leasing_from_an_unknown_queue_is_an_error(world: &World) {
    world.client.post("/v1/queues/nowhere/lease", json!({})).await.problem(404, "queue_not_found");
    world
        .client
        .post("/v1/queues/nowhere/lease", json!({ "wait": 30 }))
        .await
        .problem(404, "queue_not_found");
}

async fn a_heartbeat_keeps_the_job(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    for _ in 0..3 {
        world.advance(secs(50));
        let kept = world.settle("extend", &leased, json!({ "seconds": 60 })).await.expect(200);
        assert_eq!((&kept["id"], &kept["accepted"]), (&leased["id"], &json!(true)));
        assert_eq!(kept["deadline"], world.in_secs(60));
    }
    let job = world.job(leased["id"].as_str().unwrap()).await;
    assert_eq!((&job["status"], &job["attempts"]), (&json!("processing"), &json!(0)));
    world.settle("ack", &leased, json!({})).await.expect(200);
}

async fn an_extension_needs_a_sensible_time(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    for body in [
        json!({}),
        json!({ "seconds": 0 }),
        json!({ "seconds": -1 }),
        json!({ "seconds": 3_155_760_000_u64 }),
    ] {
        let problem = world.settle("extend", &leased, body.clone()).await.problem(400, "invalid");
        assert_eq!(problem["violations"][0]["field"], "seconds", "{body}: {problem}");
    }
    world.advance(secs(60));
    world.until(leased["id"].as_str().unwrap(), "pending").await;
}

async fn a_lease_that_ran_out_cannot_be_extended(world: &World) {
    world.queue("q", steady()).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    world.advance(secs(60));
    let before = world.until(leased["id"].as_str().unwrap(), "pending").await;
    world.settle("extend", &leased, json!({ "seconds": 60 })).await.problem(409, "stale_lease");
    world.settle_without_token("extend", &leased, json!({ "seconds": 60 })).await.problem(409, "not_leased");
    assert_eq!(world.job(leased["id"].as_str().unwrap()).await, before);
}
