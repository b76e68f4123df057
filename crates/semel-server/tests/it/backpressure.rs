//! Backpressure: a worker that asks for time gets it, no attempt is burned, and one probe goes first. And the breaker.

use serde_json::{Value, json};

use semel_core::outcome::RESPONSE_WAIT_MAX;

use crate::kit::{Worker, World, answer, scenarios, secs, text};

scenarios!(
    backpressure_burns_no_attempt,
    the_wait_is_what_the_worker_asked_for,
    a_senseless_wait_is_clamped_or_ignored,
    the_whole_queue_holds_and_one_probe_goes_first,
    a_probe_that_is_pushed_back_holds_the_queue_again,
    a_probe_that_fails_is_followed_by_another,
    a_queue_may_hold_only_the_job,
    a_held_queue_still_takes_jobs_and_settles,
    the_breaker_opens_after_failures_in_a_row,
    a_success_in_between_keeps_the_breaker_closed,
    the_breaker_is_half_open_while_one_probe_is_out,
    backpressure_does_not_open_the_breaker,
);

async fn publish(world: &World, queue: &str, payload: Value) -> String {
    world.publish(queue, json!({ "payload": payload })).await["id"].as_str().unwrap().to_owned()
}

/// A queue whose worker answers one call at a time.
async fn one_at_a_time(world: &World, worker: &Worker, mut config: Value) {
    config["concurrency"] = json!(1);
    world.push_queue("q", worker, json!({}), config).await;
}

async fn backpressure_burns_no_attempt(world: &World) {
    let mut worker = Worker::start().await;
    for status in [429_u16, 503, 529] {
        worker.answers(move |call| {
            answer(if call.body["deferCount"] == 5 { 200 } else { status }, &[("retry-after", "10")], "")
        });
        let queue = format!("q-{status}");
        world.push_queue(&queue, &worker, json!({}), json!({ "maxAttempts": 2 })).await;
        let id = publish(world, &queue, json!(1)).await;
        for round in 0..5 {
            let call = worker.call().await;
            assert_eq!(
                (&call.body["attempt"], &call.body["deferCount"]),
                (&json!(1), &json!(round)),
                "{status}"
            );
            world.until_job(&id, |job| job["deferCount"] == round + 1).await;
            world.advance(secs(10));
        }
        worker.call().await;
        let job = world.until(&id, "completed").await;
        assert_eq!((&job["attempts"], &job["deferCount"]), (&json!(1), &json!(5)), "{status}");
        let first = &job["history"][0];
        assert_eq!((&first["status"], &first["webhookStatusCode"]), (&json!("deferred"), &json!(status)));
    }
}

/// Until when a queue holds after an answer of 429 with this header.
async fn held_by(world: &World, worker: &Worker, queue: &str, header: Option<&str>) -> String {
    let header = header.map(ToOwned::to_owned);
    worker.answers(move |_| match &header {
        Some(value) => answer(429, &[("retry-after", value)], ""),
        None => answer(429, &[], ""),
    });
    world.push_queue(queue, worker, json!({}), json!({})).await;
    let id = publish(world, queue, json!(1)).await;
    let job = world.until_job(&id, |job| job["deferCount"] == 1).await;
    let held = world.look_at(queue).await["heldUntil"].as_str().unwrap().to_owned();
    assert_eq!(job["scheduledFor"], held);
    held
}

async fn the_wait_is_what_the_worker_asked_for(world: &World) {
    let worker = Worker::start().await;
    assert_eq!(held_by(world, &worker, "seconds", Some("17")).await, world.in_secs(17));
    assert_eq!(held_by(world, &worker, "missing", None).await, world.in_secs(60), "60 s without one");
    // The store's clock says Sunday, 15 November 2026, 12:00.
    let date = "Sun, 15 Nov 2026 12:01:30 GMT";
    assert_eq!(held_by(world, &worker, "date", Some(date)).await, world.in_secs(90));
}

async fn a_senseless_wait_is_clamped_or_ignored(world: &World) {
    let worker = Worker::start().await;
    let longest = text(world.now().plus(RESPONSE_WAIT_MAX));
    assert!(longest <= world.in_secs(24 * 3600), "a header cannot park a queue for days");
    assert_eq!(held_by(world, &worker, "ten-years", Some("315360000")).await, longest);
    assert_eq!(held_by(world, &worker, "far-date", Some("Thu, 15 Nov 2046 12:00:00 GMT")).await, longest);
    assert_eq!(held_by(world, &worker, "endless", Some(&"9".repeat(40))).await, longest);
    for (queue, nonsense) in [("negative", "-5"), ("words", "soon"), ("empty", ""), ("float", "1.5")] {
        assert_eq!(held_by(world, &worker, queue, Some(nonsense)).await, world.in_secs(60), "{nonsense}");
    }
    for (queue, past) in [("zero", "0"), ("past-date", "Sun, 15 Nov 2020 12:00:00 GMT")] {
        assert_eq!(
            held_by(world, &worker, queue, Some(past)).await,
            world.in_secs(1),
            "{past}: not a busy loop"
        );
    }
}

async fn the_whole_queue_holds_and_one_probe_goes_first(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(503, &[("retry-after", "20")], ""));
    one_at_a_time(world, &worker, json!({})).await;
    let first = publish(world, "q", json!(0)).await;
    worker.call().await;
    world.until_job(&first, |job| job["deferCount"] == 1).await;
    let probed_at = world.seconds() + 20;
    world
        .client
        .put("/v1/queues/q", json!({ "delivery": { "type": "push", "url": worker.url() } }))
        .await
        .expect(200);
    worker.answers(|_| answer(200, &[], ""));
    worker.hold_answers();
    let mut ids = vec![first];
    for n in 1..4 {
        world.advance(secs(5));
        ids.push(publish(world, "q", json!(n)).await);
    }
    world.advance(secs(4));
    let counts = world.look_at("q").await["counts"].clone();
    assert_eq!(
        (&counts["pending"], &counts["processing"]),
        (&json!(4), &json!(0)),
        "nothing goes out while it holds"
    );
    world.advance(secs(1));
    let probe = worker.call().await;
    assert_eq!(probe.sent_at(), probed_at, "nothing went out before");
    ids.push(publish(world, "q", json!(4)).await);
    let counts = world.look_at("q").await["counts"].clone();
    assert_eq!((&counts["pending"], &counts["processing"]), (&json!(4), &json!(1)), "one probe goes first");
    assert!(worker.calls_so_far().is_empty());
    worker.go_on();
    for id in &ids {
        let job = world.until(id, "completed").await;
        assert_eq!(job["attempts"], 1);
    }
    assert_eq!(worker.calls_so_far().len(), 4, "it worked, so the others followed without a wait");
}

async fn a_probe_that_is_pushed_back_holds_the_queue_again(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(429, &[("retry-after", "20")], ""));
    one_at_a_time(world, &worker, json!({})).await;
    let ids = [publish(world, "q", json!(0)).await, publish(world, "q", json!(1)).await];
    for round in 0..3 {
        let call = worker.call().await;
        assert_eq!(call.sent_at(), world.seconds());
        let until = world.in_secs(20);
        world.until_queue("q", |queue| queue["heldUntil"] == until).await;
        let counts = world.look_at("q").await["counts"].clone();
        assert_eq!((&counts["pending"], &counts["processing"]), (&json!(2), &json!(0)), "round {round}");
        world.advance(secs(20));
    }
    worker.call().await;
    for id in &ids {
        assert_eq!(world.job(id).await["attempts"], 0);
    }
}

async fn a_probe_that_fails_is_followed_by_another(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(429, &[("retry-after", "20")], ""));
    one_at_a_time(world, &worker, json!({})).await;
    let ids = [publish(world, "q", json!(0)).await, publish(world, "q", json!(1)).await];
    worker.call().await;
    world.until_queue("q", |queue| queue["heldUntil"].is_string()).await;
    worker.answers(|call| answer(if call.body["payload"] == 0 { 410 } else { 200 }, &[], ""));
    world.advance(secs(20));
    for id in &ids {
        world.until_job(id, |job| job["completedAt"].is_string()).await;
    }
    assert_eq!(world.look_at("q").await["heldUntil"], Value::Null, "the queue is open again by itself");
}

async fn a_queue_may_hold_only_the_job(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|call| {
        answer(if call.body["payload"] == 0 { 429 } else { 200 }, &[("retry-after", "20")], "")
    });
    one_at_a_time(world, &worker, json!({ "deferScope": "job" })).await;
    let busy = publish(world, "q", json!(0)).await;
    let other = publish(world, "q", json!(1)).await;
    world.until(&other, "completed").await;
    let job = world.job(&busy).await;
    assert_eq!(
        (&job["status"], &job["attempts"], &job["deferCount"]),
        (&json!("pending"), &json!(0), &json!(1))
    );
    assert_eq!(
        (&job["scheduledFor"], &world.look_at("q").await["heldUntil"]),
        (&json!(world.in_secs(20)), &Value::Null)
    );
    assert_eq!(worker.calls_so_far().len(), 2);
    worker.answers(|_| answer(200, &[], ""));
    world.advance(secs(20));
    world.until(&busy, "completed").await;
}

async fn a_held_queue_still_takes_jobs_and_settles(world: &World) {
    world.queue("q", json!({})).await;
    for n in 0..2 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let jobs = world.lease("q", 2).await;
    world.settle("defer", &jobs[0], json!({ "retryAfter": 60 })).await.expect(200);
    world.settle("ack", &jobs[1], json!({})).await.expect(200);
    world.publish("q", json!({ "payload": 2 })).await;
    assert_eq!(
        world.look_at("q").await["heldUntil"],
        world.in_secs(60),
        "a delivery from before opens nothing"
    );
    assert!(world.lease("q", 9).await.is_empty());
}

/// A queue with a breaker that opens at two failures for half a minute, and waits of a second between attempts.
async fn with_breaker(world: &World, worker: &Worker) {
    let retry = json!({ "strategy": "fixed", "base": 1, "cap": 1, "jitter": "none" });
    one_at_a_time(world, worker, json!({ "breaker": { "failures": 2, "cooldown": 30 }, "retry": retry }))
        .await;
}

async fn attempts_of(world: &World, ids: &[String]) -> u64 {
    let mut sum = 0;
    for id in ids {
        sum += world.job(id).await["attempts"].as_u64().unwrap();
    }
    sum
}

/// Four jobs of a queue whose breaker has opened.
async fn opened(world: &World, worker: &mut Worker) -> Vec<String> {
    worker.answers(|_| answer(500, &[], ""));
    with_breaker(world, worker).await;
    assert_eq!(world.look_at("q").await["breakerState"], "closed");
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(publish(world, "q", json!(n)).await);
    }
    world.until_queue("q", |queue| queue["breakerState"] == "open").await;
    assert_eq!(worker.calls_so_far().len(), 2);
    ids
}

async fn the_breaker_opens_after_failures_in_a_row(world: &World) {
    let mut worker = Worker::start().await;
    let ids = opened(world, &mut worker).await;
    let probed_at = world.seconds() + 30;
    world.advance(secs(29));
    publish(world, "q", json!(4)).await;
    assert_eq!(world.look_at("q").await["breakerState"], "open");
    assert_eq!(attempts_of(world, &ids).await, 2, "an open breaker burns no attempts");
    world.advance(secs(1));
    assert_eq!(worker.call().await.sent_at(), probed_at, "nothing went out before");
}

async fn a_success_in_between_keeps_the_breaker_closed(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|call| answer(if call.body["payload"] == "good" { 200 } else { 500 }, &[], ""));
    with_breaker(world, &worker).await;
    for payload in ["bad", "good", "bad", "good"] {
        let id = publish(world, "q", json!(payload)).await;
        worker.call().await;
        world.until_job(&id, |job| job["attempts"] == 1).await;
    }
    assert_eq!(world.look_at("q").await["breakerState"], "closed");
}

async fn the_breaker_is_half_open_while_one_probe_is_out(world: &World) {
    let mut worker = Worker::start().await;
    let ids = opened(world, &mut worker).await;
    worker.hold_answers();
    world.advance(secs(30));
    worker.call().await;
    let queue = world.look_at("q").await;
    assert_eq!((&queue["breakerState"], &queue["counts"]["processing"]), (&json!("half_open"), &json!(1)));
    worker.go_on();
    world.until_queue("q", |queue| queue["breakerState"] == "open").await;
    assert_eq!(attempts_of(world, &ids).await, 3, "the probe failed, and it alone went out");
    worker.answers(|_| answer(200, &[], ""));
    world.advance(secs(30));
    for id in &ids {
        world.until(id, "completed").await;
    }
    assert_eq!(world.look_at("q").await["breakerState"], "closed");
}

async fn backpressure_does_not_open_the_breaker(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(429, &[("retry-after", "5")], ""));
    with_breaker(world, &worker).await;
    let id = publish(world, "q", json!(1)).await;
    for round in 1..=4 {
        worker.call().await;
        world.until_job(&id, |job| job["deferCount"] == round).await;
        assert_eq!(world.look_at("q").await["breakerState"], "closed");
        world.advance(secs(5));
    }
}
