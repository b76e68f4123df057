//! What goes out when: priority, delay, groups, limits, pause.

use serde_json::{Value, json};

use crate::kit::{Received, Worker, World, answer, millis, scenarios, secs};

scenarios!(
    higher_priority_goes_first_and_equals_in_publish_order,
    a_delayed_job_waits_for_its_time,
    a_job_with_a_time_waits_for_it,
    a_delayed_job_reaches_its_webhook_when_it_is_due,
    a_group_of_one_is_in_strict_order,
    nothing_overtakes_a_job_that_failed_in_a_group_of_one,
    a_group_lets_out_as_many_as_it_may,
    a_webhook_sees_a_group_in_order_even_if_it_fails,
    a_queue_has_no_more_out_than_its_concurrency,
    a_webhook_is_called_no_more_often_at_once_than_the_queue_says,
    a_rate_spreads_jobs_over_time,
    a_webhook_is_called_at_the_queues_rate,
    a_paused_queue_takes_jobs_and_hands_out_none,
    a_paused_queue_calls_no_webhook_until_it_is_resumed,
);

fn payloads(jobs: &[Value]) -> Vec<&Value> {
    jobs.iter().map(|job| &job["payload"]).collect()
}

async fn ack_all(world: &World, jobs: &[Value]) {
    for job in jobs {
        world.settle("ack", job, json!({})).await.expect(200);
    }
}

async fn higher_priority_goes_first_and_equals_in_publish_order(world: &World) {
    world.queue("q", json!({})).await;
    for (payload, priority) in [("a", 0), ("b", -100), ("c", 100), ("d", 0), ("e", 100)] {
        world.publish("q", json!({ "payload": payload, "priority": priority })).await;
    }
    world.publish("q", json!({ "payload": "f" })).await;
    assert_eq!(
        payloads(&world.lease("q", 9).await),
        ["c", "e", "a", "d", "f", "b"],
        "the default priority is 0"
    );
    for priority in [101, -101] {
        let body = json!({ "payload": 1, "priority": priority });
        world.client.post("/v1/queues/q/jobs", body).await.problem(400, "invalid");
    }
}

async fn a_delayed_job_waits_for_its_time(world: &World) {
    world.queue("q", json!({})).await;
    let made = world.publish("q", json!({ "payload": 1, "delay": 60, "priority": 100 })).await;
    assert_eq!(world.job(made["id"].as_str().unwrap()).await["scheduledFor"], world.in_secs(60));
    world.publish("q", json!({ "payload": 2 })).await;
    let ready = world.lease("q", 9).await;
    assert_eq!(payloads(&ready), [2]);
    ack_all(world, &ready).await;
    world.advance(millis(59_999));
    assert!(world.lease("q", 9).await.is_empty(), "never before its time");
    world.advance(millis(1));
    assert_eq!(payloads(&world.lease("q", 9).await), [1]);
}

async fn a_job_with_a_time_waits_for_it(world: &World) {
    world.queue("q", json!({})).await;
    let at = world.in_secs(90);
    let made = world.publish("q", json!({ "payload": 1, "runAt": at })).await;
    assert_eq!(world.job(made["id"].as_str().unwrap()).await["scheduledFor"], at);
    let both = json!({ "payload": 1, "runAt": at, "delay": 5 });
    world.client.post("/v1/queues/q/jobs", both).await.problem(400, "invalid");
    world.publish("q", json!({ "payload": 2, "runAt": "2020-01-01T00:00:00Z" })).await;
    let ready = world.lease("q", 9).await;
    assert_eq!(payloads(&ready), [2], "a time that is past is now");
    ack_all(world, &ready).await;
    world.advance(millis(89_999));
    assert!(world.lease("q", 9).await.is_empty());
    world.advance(millis(1));
    assert_eq!(payloads(&world.lease("q", 9).await), [1]);
}

async fn a_delayed_job_reaches_its_webhook_when_it_is_due(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    let due = world.seconds() + 60;
    world.publish("q", json!({ "payload": "late", "delay": 60 })).await;
    world.publish("q", json!({ "payload": "early", "delay": 30 })).await;
    world.advance(millis(29_999));
    world.publish("q", json!({ "payload": "now" })).await;
    assert_eq!(worker.call().await.body["payload"], "now");
    world.advance(millis(1));
    let early = worker.call().await;
    assert_eq!((&early.body["payload"], early.sent_at()), (&json!("early"), due - 30));
    world.advance(secs(30));
    let late = worker.call().await;
    assert_eq!((&late.body["payload"], late.sent_at()), (&json!("late"), due));
}

async fn a_group_of_one_is_in_strict_order(world: &World) {
    world.queue("q", json!({ "groupConcurrency": 1 })).await;
    for (payload, group) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b")] {
        world.publish("q", json!({ "payload": payload, "group": group })).await;
    }
    world.publish("q", json!({ "payload": "alone" })).await;
    let first = world.lease("q", 9).await;
    assert_eq!(payloads(&first), ["a1", "b1", "alone"], "one of each group, and whoever has none");
    world.settle("ack", &first[0], json!({})).await.expect(200);
    let second = world.lease("q", 9).await;
    assert_eq!(payloads(&second), ["a2"], "the end of one lets the next of its group go");
    ack_all(world, &[second[0].clone(), first[1].clone()]).await;
    assert_eq!(payloads(&world.lease("q", 9).await), ["a3", "b2"]);
}

async fn nothing_overtakes_a_job_that_failed_in_a_group_of_one(world: &World) {
    let retry = json!({ "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" });
    world.queue("q", json!({ "groupConcurrency": 1, "retry": retry, "maxAttempts": 2 })).await;
    for payload in ["first", "second"] {
        world.publish("q", json!({ "payload": payload, "group": "g" })).await;
    }
    let leased = world.lease_one("q").await;
    world.settle("nack", &leased, json!({})).await.expect(200);
    assert!(
        world.lease("q", 9).await.is_empty(),
        "the second waits for the first, which waits for its retry"
    );
    world.advance(secs(10));
    let again = world.lease_one("q").await;
    assert_eq!(again["payload"], "first");
    assert_eq!(world.settle("nack", &again, json!({})).await.expect(200)["status"], "dead");
    assert_eq!(world.lease_one("q").await["payload"], "second", "a dead letter blocks nobody");
}

async fn a_group_lets_out_as_many_as_it_may(world: &World) {
    world.queue("q", json!({ "groupConcurrency": 2 })).await;
    for n in 0..5 {
        world.publish("q", json!({ "payload": n, "group": "g" })).await;
    }
    let two = world.lease("q", 9).await;
    assert_eq!(payloads(&two), [0, 1]);
    assert!(world.lease("q", 9).await.is_empty());
    world.settle("ack", &two[1], json!({})).await.expect(200);
    assert_eq!(payloads(&world.lease("q", 9).await), [2]);
}

async fn a_webhook_sees_a_group_in_order_even_if_it_fails(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|call| answer(if call.body["attempt"] == 1 { 500 } else { 200 }, &[], ""));
    let retry = json!({ "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" });
    world.push_queue("q", &worker, json!({}), json!({ "groupConcurrency": 1, "retry": retry })).await;
    let mut last = Value::Null;
    for n in 0..3 {
        last = world.publish("q", json!({ "payload": n, "group": "g" })).await["id"].clone();
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let failed = worker.call().await;
        world.until(failed.id(), "pending").await;
        world.advance(secs(10));
        let done = worker.call().await;
        seen.extend([failed, done].map(|call| (call.body["payload"].clone(), call.body["attempt"].clone())));
    }
    world.until(last.as_str().unwrap(), "completed").await;
    let expected =
        [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)].map(|(n, attempt)| (json!(n), json!(attempt)));
    assert_eq!(seen, expected);
}

async fn a_queue_has_no_more_out_than_its_concurrency(world: &World) {
    world.queue("q", json!({ "concurrency": 2 })).await;
    for n in 0..5 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let two = world.lease("q", 9).await;
    assert_eq!(payloads(&two), [0, 1]);
    assert!(world.lease("q", 9).await.is_empty());
    world.settle("ack", &two[0], json!({})).await.expect(200);
    assert_eq!(payloads(&world.lease("q", 9).await), [2], "each end frees one slot");
}

async fn a_webhook_is_called_no_more_often_at_once_than_the_queue_says(world: &World) {
    let mut worker = Worker::start().await;
    worker.hold_answers();
    world.push_queue("q", &worker, json!({}), json!({ "concurrency": 2 })).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.publish("q", json!({ "payload": n })).await["id"].as_str().unwrap().to_owned());
    }
    let first = [worker.call().await, worker.call().await];
    let counts = world.look_at("q").await["counts"].clone();
    assert_eq!((&counts["processing"], &counts["pending"]), (&json!(2), &json!(3)));
    assert!(worker.calls_so_far().is_empty());
    worker.go_on();
    for id in &ids {
        world.until(id, "completed").await;
    }
    let rest = worker.calls_so_far();
    let mut all: Vec<_> = first.iter().chain(&rest).map(Received::id).collect();
    all.sort_unstable();
    ids.sort_unstable();
    assert_eq!(all, ids, "each was called once");
}

async fn a_rate_spreads_jobs_over_time(world: &World) {
    world.queue("q", json!({ "rate": { "count": 2, "per": 10 } })).await;
    for n in 0..5 {
        world.publish("q", json!({ "payload": n })).await;
    }
    assert_eq!(payloads(&world.lease("q", 9).await), [0, 1]);
    world.advance(millis(4999));
    assert!(world.lease("q", 9).await.is_empty());
    world.advance(millis(1));
    assert_eq!(payloads(&world.lease("q", 9).await), [2]);
    world.advance(secs(10));
    assert_eq!(payloads(&world.lease("q", 9).await), [3, 4], "two in ten seconds");
}

async fn a_webhook_is_called_at_the_queues_rate(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({ "rate": { "count": 1, "per": 10 } })).await;
    let start = world.seconds();
    for n in 0..3 {
        world.publish("q", json!({ "payload": n })).await;
    }
    for n in 0..3 {
        let call = worker.call().await;
        assert_eq!((&call.body["payload"], call.sent_at()), (&json!(n), start + n * 10));
        world.until(call.id(), "completed").await;
        world.advance(secs(9));
        assert!(worker.calls_so_far().is_empty());
        world.advance(secs(1));
    }
}

async fn a_paused_queue_takes_jobs_and_hands_out_none(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    assert_eq!(world.client.post("/v1/queues/q/pause", json!({})).await.expect(200)["paused"], true);
    world.publish("q", json!({ "payload": 2 })).await;
    assert!(world.lease("q", 9).await.is_empty());
    world.settle("ack", &leased, json!({})).await.expect(200);
    assert!(world.lease("q", 9).await.is_empty(), "a settle is taken, and lets nothing out");
    assert_eq!(world.client.post("/v1/queues/q/resume", json!({})).await.expect(200)["paused"], false);
    assert_eq!(payloads(&world.lease("q", 9).await), [2]);
}

async fn a_paused_queue_calls_no_webhook_until_it_is_resumed(world: &World) {
    let mut worker = Worker::start().await;
    world.push_queue("q", &worker, json!({}), json!({})).await;
    world.client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    let resumed_at = world.seconds() + 5;
    for n in 0..3 {
        world.publish("q", json!({ "payload": n })).await;
        world.advance(secs(1));
    }
    assert_eq!(world.look_at("q").await["counts"]["pending"], 3);
    world.advance(secs(2));
    world.client.post("/v1/queues/q/resume", json!({})).await.expect(200);
    for _ in 0..3 {
        assert_eq!(worker.call().await.sent_at(), resumed_at);
    }
}
