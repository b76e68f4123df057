//! Settling: ack, nack and defer, once and only by whoever holds the lease.

use serde_json::{Value, json};

use crate::kit::{World, millis, scenarios, secs};

scenarios!(
    a_worker_stopped_past_its_lease_changes_nothing,
    a_token_of_another_job_settles_nothing,
    without_a_token_the_current_delivery_is_settled,
    without_a_delivery_there_is_nothing_to_settle,
    repeating_a_settle_is_accepted_and_changes_nothing,
    a_delivery_is_settled_one_way_only,
    a_result_and_a_receipt_are_kept,
    a_nack_is_retried_after_its_wait,
    a_rejected_job_is_dead_at_once,
    a_defer_burns_no_attempt_and_holds_the_queue,
    a_defer_of_one_job_holds_only_that_job,
    a_batch_of_settles_answers_each_item,
);

/// A wait of ten seconds between attempts, to the millisecond.
fn steady() -> Value {
    json!({ "retry": { "strategy": "fixed", "base": 10, "cap": 10, "jitter": "none" } })
}

/// No wait between attempts.
fn at_once() -> Value {
    json!({ "retry": { "strategy": "fixed", "base": 0, "cap": 0, "jitter": "none" } })
}

async fn a_worker_stopped_past_its_lease_changes_nothing(world: &World) {
    world.queue("q", at_once()).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let slow = world.lease_one("q").await;
    let id = slow["id"].as_str().unwrap();
    world.advance(secs(60));
    world.until(id, "pending").await;
    let quick = world.lease_one("q").await;
    assert!(quick["lease"].as_str() > slow["lease"].as_str(), "tokens strictly increase: {quick} {slow}");
    let before = world.job(id).await;
    for (verb, body) in [
        ("ack", json!({ "result": "slow" })),
        ("nack", json!({})),
        ("nack", json!({ "retryable": false })),
        ("defer", json!({ "retryAfter": 5 })),
        ("extend", json!({ "seconds": 60 })),
    ] {
        world.settle(verb, &slow, body).await.problem(409, "stale_lease");
        assert_eq!(world.job(id).await, before, "a stale {verb} changes nothing");
    }
    world.settle("ack", &quick, json!({ "result": "quick" })).await.expect(200);
    world.settle("ack", &slow, json!({ "result": "slow" })).await.problem(409, "stale_lease");
    assert_eq!(world.job(id).await["result"], "quick");
}

async fn a_token_of_another_job_settles_nothing(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    world.publish("q", json!({ "payload": 2 })).await;
    let jobs = world.lease("q", 2).await;
    let forged = json!({ "id": jobs[0]["id"], "lease": jobs[1]["lease"] });
    for (verb, body) in [("ack", json!({})), ("nack", json!({})), ("defer", json!({ "retryAfter": 1 }))] {
        world.settle(verb, &forged, body).await.problem(409, "stale_lease");
    }
    let nonsense = json!({ "id": jobs[0]["id"], "lease": "lse_!" });
    let problem = world.settle("ack", &nonsense, json!({})).await.problem(400, "invalid");
    assert_eq!(problem["violations"][0]["field"], "lease");
    for job in &jobs {
        assert_eq!(world.job(job["id"].as_str().unwrap()).await["status"], "processing");
        world.settle("ack", job, json!({})).await.expect(200);
    }
}

async fn without_a_token_the_current_delivery_is_settled(world: &World) {
    world.queue("q", at_once()).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let first = world.lease_one("q").await;
    let answer = world.settle_without_token("nack", &first, json!({})).await.expect(200);
    assert_eq!((&answer["id"], &answer["accepted"]), (&first["id"], &json!(true)));
    world.lease_one("q").await;
    world.settle_without_token("extend", &first, json!({ "seconds": 90 })).await.expect(200);
    world.settle_without_token("ack", &first, json!({ "result": 1 })).await.expect(200);
    let job = world.job(first["id"].as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["attempts"], &job["result"]),
        (&json!("completed"), &json!(2), &json!(1))
    );
}

async fn without_a_delivery_there_is_nothing_to_settle(world: &World) {
    world.queue("q", json!({})).await;
    let made = world.publish("q", json!({ "payload": 1 })).await;
    for (verb, body) in [
        ("ack", json!({})),
        ("nack", json!({})),
        ("defer", json!({ "retryAfter": 1 })),
        ("extend", json!({ "seconds": 9 })),
    ] {
        world.settle_without_token(verb, &made, body).await.problem(409, "not_leased");
    }
    let job = world.job(made["id"].as_str().unwrap()).await;
    assert_eq!((&job["status"], &job["history"]), (&json!("pending"), &json!([])));
    world.client.post("/v1/jobs/job_0000000000001/ack", json!({})).await.problem(404, "job_not_found");
}

async fn repeating_a_settle_is_accepted_and_changes_nothing(world: &World) {
    for (verb, body) in [
        ("ack", json!({ "result": 1 })),
        ("nack", json!({})),
        ("nack", json!({ "retryable": false })),
        ("defer", json!({ "retryAfter": 5, "scope": "job" })),
    ] {
        let queue = format!("{verb}-{}", body["retryable"].is_boolean());
        world.queue(&queue, steady()).await;
        world.publish(&queue, json!({ "payload": 1 })).await;
        let leased = world.lease_one(&queue).await;
        let first = world.settle(verb, &leased, body.clone()).await.expect(200);
        let after = world.job(leased["id"].as_str().unwrap()).await;
        world.advance(secs(1));
        assert_eq!(world.settle(verb, &leased, body.clone()).await.expect(200), first);
        assert_eq!(world.settle_without_token(verb, &leased, body).await.expect(200), first);
        assert_eq!(
            world.job(leased["id"].as_str().unwrap()).await,
            after,
            "a repeated {verb} changes nothing"
        );
    }
}

async fn a_delivery_is_settled_one_way_only(world: &World) {
    for (first, then) in
        [("ack", "nack"), ("ack", "defer"), ("nack", "ack"), ("nack", "defer"), ("defer", "ack")]
    {
        let queue = format!("{first}-{then}");
        world.queue(&queue, steady()).await;
        world.publish(&queue, json!({ "payload": 1 })).await;
        let leased = world.lease_one(&queue).await;
        let body = |verb: &str| if verb == "defer" { json!({ "retryAfter": 5 }) } else { json!({}) };
        world.settle(first, &leased, body(first)).await.expect(200);
        let before = world.job(leased["id"].as_str().unwrap()).await;
        world.settle(then, &leased, body(then)).await.problem(409, "stale_lease");
        world.settle_without_token(then, &leased, body(then)).await.problem(409, "not_leased");
        assert_eq!(
            world.job(leased["id"].as_str().unwrap()).await,
            before,
            "{then} after {first} changes nothing"
        );
    }
}

async fn a_result_and_a_receipt_are_kept(world: &World) {
    world.queue("q", json!({})).await;
    for outcome in ["applied", "replayed", "none"] {
        world.publish("q", json!({ "payload": 1 })).await;
        let leased = world.lease_one("q").await;
        let said = json!({ "result": { "n": [1, null] }, "effect": { "outcome": outcome, "key": "k" } });
        world.settle("ack", &leased, said).await.expect(200);
        let job = world.job(leased["id"].as_str().unwrap()).await;
        assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &json!({ "n": [1, null] })));
        assert_eq!(job["effect"], json!({ "outcome": outcome, "key": "k" }));
        assert_eq!(job["history"][0]["effect"], job["effect"]);
        assert_eq!(job["completedAt"], world.in_secs(0));
    }
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    let guess = json!({ "effect": { "outcome": "perhaps" } });
    world.settle("ack", &leased, guess).await.problem(400, "invalid");
    let large = json!({ "result": "x".repeat(64 * 1024) });
    world.settle("ack", &leased, large).await.problem(400, "invalid");
    world.settle("ack", &leased, json!({ "result": "x".repeat(64 * 1024 - 2) })).await.expect(200);
}

async fn a_nack_is_retried_after_its_wait(world: &World) {
    world.queue("q", steady()).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let first = world.lease_one("q").await;
    let long = json!({ "reason": "ä".repeat(501) });
    world.settle("nack", &first, long).await.problem(400, "invalid");
    let reason = "ä".repeat(500);
    let answer = world.settle("nack", &first, json!({ "reason": reason })).await.expect(200);
    assert_eq!((&answer["status"], &answer["due"]), (&json!("pending"), &json!(world.in_secs(10))));
    let job = world.job(first["id"].as_str().unwrap()).await;
    assert_eq!((&job["lastError"], &job["attempts"]), (&json!(reason), &json!(1)));
    assert_eq!((&job["history"][0]["status"], &job["history"][0]["attempt"]), (&json!("nacked"), &json!(1)));
    world.advance(millis(9999));
    assert!(world.lease("q", 1).await.is_empty(), "never before its time");
    world.advance(millis(1));
    let second = world.lease_one("q").await;
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    assert_ne!((&second["lease"], &second["deliveryId"]), (&first["lease"], &first["deliveryId"]));
}

async fn a_rejected_job_is_dead_at_once(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let leased = world.lease_one("q").await;
    let said = json!({ "retryable": false, "reason": "no such customer" });
    assert_eq!(world.settle("nack", &leased, said).await.expect(200)["status"], "dead");
    let job = world.job(leased["id"].as_str().unwrap()).await;
    assert_eq!((&job["lastError"], &job["attempts"]), (&json!("no such customer"), &json!(1)));
    let dead = world.client.get("/v1/queues/q/dead").await.expect(200);
    assert_eq!(dead["jobs"][0]["id"], leased["id"]);
}

async fn a_defer_burns_no_attempt_and_holds_the_queue(world: &World) {
    world.queue("q", json!({ "maxAttempts": 1 })).await;
    for n in 0..3 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let first = world.lease_one("q").await;
    world.settle("defer", &first, json!({})).await.problem(400, "invalid");
    world.settle("defer", &first, json!({ "retryAfter": -1 })).await.problem(400, "invalid");
    world.settle("defer", &first, json!({ "retryAfter": 20, "reason": "full" })).await.expect(200);
    let job = world.job(first["id"].as_str().unwrap()).await;
    assert_eq!(
        (&job["status"], &job["attempts"], &job["deferCount"]),
        (&json!("pending"), &json!(0), &json!(1))
    );
    assert_eq!(
        (&job["history"][0]["status"], &job["scheduledFor"]),
        (&json!("deferred"), &json!(world.in_secs(20)))
    );
    assert_eq!(world.look_at("q").await["heldUntil"], world.in_secs(20));
    world.advance(millis(19_999));
    assert!(world.lease("q", 9).await.is_empty(), "the whole queue holds");
    world.advance(millis(1));
    let probe = world.lease_one("q").await;
    assert!(world.lease("q", 9).await.is_empty(), "one probe goes first");
    world.settle("ack", &probe, json!({})).await.expect(200);
    assert_eq!(world.lease("q", 9).await.len(), 2, "it worked, so the others follow");
}

async fn a_defer_of_one_job_holds_only_that_job(world: &World) {
    world.queue("said", json!({})).await;
    world.queue("set", json!({ "deferScope": "job" })).await;
    for (queue, said) in
        [("said", json!({ "retryAfter": 20, "scope": "job" })), ("set", json!({ "retryAfter": 20 }))]
    {
        world.publish(queue, json!({ "payload": 1 })).await;
        world.publish(queue, json!({ "payload": 2 })).await;
        let first = world.lease_one(queue).await;
        world.settle("defer", &first, said).await.expect(200);
        assert_eq!(world.look_at(queue).await["heldUntil"], Value::Null);
        assert_eq!(world.lease_one(queue).await["payload"], 2);
        assert!(world.lease(queue, 9).await.is_empty());
    }
    world.advance(secs(20));
    for queue in ["said", "set"] {
        let again = world.lease_one(queue).await;
        assert_eq!(
            (&again["payload"], &again["attempt"], &again["deferCount"]),
            (&json!(1), &json!(1), &json!(1))
        );
    }
}

async fn a_batch_of_settles_answers_each_item(world: &World) {
    world.queue("q", steady()).await;
    for n in 0..5 {
        world.publish("q", json!({ "payload": n })).await;
    }
    let jobs = world.lease("q", 5).await;
    let item =
        |n: usize, action: &str| json!({ "id": jobs[n]["id"], "lease": jobs[n]["lease"], "action": action });
    let with = |mut item: Value, name: &str, value: Value| {
        item[name] = value;
        item
    };
    let items = json!([
        with(item(0, "ack"), "result", json!("done")),
        item(1, "nack"),
        with(with(item(2, "defer"), "retryAfter", json!(5)), "scope", json!("job")),
        with(item(3, "extend"), "seconds", json!(90)),
        with(item(4, "ack"), "lease", jobs[3]["lease"].clone()),
        item(4, "defer"),
        { "id": "job_0000000000001", "action": "ack" },
        item(0, "ack"),
    ]);
    let answer = world.client.post("/v1/settle", json!({ "items": items })).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let said: Vec<_> =
        results.iter().map(|r| r["status"].as_str().or(r["code"].as_str()).unwrap_or("-")).collect();
    assert_eq!(said[..4], ["completed", "pending", "pending", "-"], "{answer}");
    assert_eq!(results[3]["deadline"], world.in_secs(90));
    let codes: Vec<_> = results[4..7].iter().map(|r| r["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["stale_lease", "invalid", "job_not_found"], "{answer}");
    assert_eq!(
        (&results[7]["id"], &results[7]["accepted"]),
        (&jobs[0]["id"], &json!(true)),
        "a repeat, in one batch too"
    );
    assert_eq!(
        world.job(jobs[4]["id"].as_str().unwrap()).await["status"],
        "processing",
        "nothing was half applied"
    );
    for size in [0, 1001] {
        let items = vec![item(4, "ack"); size];
        world.client.post("/v1/settle", json!({ "items": items })).await.problem(400, "invalid");
    }
    assert_eq!(world.job(jobs[4]["id"].as_str().unwrap()).await["status"], "processing");
}
