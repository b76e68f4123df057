//! Queues: settings go in and come out, what does not fit together is said, and nothing is lost with a queue.

use serde_json::{Map, Value, json};

use crate::kit::{World, scenarios, secs};

scenarios!(
    settings_come_out_as_they_went_in,
    what_is_left_out_takes_its_default,
    a_setting_changes_and_its_jobs_stay,
    the_defaults_pass_the_window_proof,
    a_window_that_is_too_short_is_said_and_by_how_much,
    a_ledger_that_forgets_too_soon_is_said,
    a_queue_with_unfinished_jobs_stays,
    a_queue_that_is_gone_is_gone,
    handler_times_are_measured,
    a_lease_shorter_than_the_work_is_said,
    a_secret_is_shown_when_it_is_made,
);

fn everything() -> Value {
    json!({
        "delivery": { "type": "push", "url": "https://worker.example/jobs?a=1", "mode": "ack", "timeout": 2.5,
            "ackTimeout": 600, "ackTimeoutAction": "dead", "signature": "simpleq" },
        "retry": { "strategy": "exponential", "base": 2, "factor": 3.0, "cap": 900, "jitter": "none" },
        "maxAttempts": 7, "concurrency": 5, "rate": { "count": 10, "per": 60, "burst": 3 }, "groupConcurrency": 1,
        "deferScope": "job", "breaker": { "failures": 4, "cooldown": 30 }, "window": 604_800, "requireKey": true,
        "keyPattern": "order-[0-9]+", "onCollision": "reject", "collisionIgnore": ["/sentAt", "/a~1b"], "onDead": "revive",
        "retention": { "completed": 3600, "dead": 86_400, "archive": true }, "duplicates": { "limit": 3, "action": "dead" },
        "payloadLimit": 1024, "ledgerTtl": 1_209_600,
    })
}

/// The settings of a queue, out of everything it is shown with.
fn settings(shown: &Value) -> Value {
    let all = everything();
    let asked = all.as_object().unwrap().keys();
    Value::Object(asked.map(|name| (name.clone(), shown[name].clone())).collect::<Map<_, _>>())
}

async fn settings_come_out_as_they_went_in(world: &World) {
    let made = world.queue("q", everything()).await;
    assert_eq!(settings(&made), everything());
    let shown = world.client.get("/v1/queues/q").await.expect(200);
    assert_eq!(shown, made, "a PUT answers with what a GET shows");
    assert_eq!((&shown["name"], &shown["createdAt"]), (&json!("q"), &json!("2026-11-15T12:00:00.000Z")));
    assert_eq!(
        (&shown["paused"], &shown["heldUntil"], &shown["breakerState"]),
        (&json!(false), &Value::Null, &json!("closed"))
    );
    let put_back = world.client.put("/v1/queues/q", settings(&shown)).await.expect(200);
    assert_eq!(put_back, shown);
    let list = world.client.get("/v1/queues").await.expect(200);
    assert_eq!(list, json!({ "queues": [shown] }));
}

async fn what_is_left_out_takes_its_default(world: &World) {
    world.queue("q", everything()).await;
    let bare = world.client.put("/v1/queues/q", json!({})).await.expect(200);
    assert_eq!(bare["delivery"], json!({ "type": "pull", "leaseSeconds": 60 }));
    assert_eq!((&bare["maxAttempts"], &bare["window"]), (&json!(10), &json!(72 * 3600)));
    assert_eq!(
        (&bare["onCollision"], &bare["onDead"], &bare["deferScope"]),
        (&json!("flag"), &json!("keep"), &json!("queue"))
    );
    assert_eq!((&bare["requireKey"], &bare["payloadLimit"]), (&json!(false), &json!(256 * 1024)));
    for none in [
        "concurrency",
        "rate",
        "groupConcurrency",
        "breaker",
        "keyPattern",
        "duplicates",
        "ledgerTtl",
        "breakerState",
    ] {
        assert!(bare.get(none).is_some_and(Value::is_null), "{none} is null, never absent: {bare}");
    }
    let push = json!({ "delivery": { "type": "push", "url": "https://worker.example/" } });
    let pushed = world.client.put("/v1/queues/q", push).await.expect(200);
    assert_eq!(
        (&pushed["delivery"]["timeout"], &pushed["delivery"]["mode"]),
        (&json!(15), &json!("standard"))
    );
}

async fn a_setting_changes_and_its_jobs_stay(world: &World) {
    world.queue("q", json!({ "payloadLimit": 10 })).await;
    let id = world.publish("q", json!({ "payload": "12345678" })).await["id"].clone();
    world.client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    let changed = world.client.put("/v1/queues/q", json!({ "payloadLimit": 4 })).await.expect(200);
    assert_eq!((&changed["counts"]["pending"], &changed["paused"]), (&json!(1), &json!(true)));
    world
        .client
        .post("/v1/queues/q/jobs", json!({ "payload": "12345678" }))
        .await
        .problem(413, "payload_too_large");
    let resumed = world.client.post("/v1/queues/q/resume", json!({})).await.expect(200);
    assert_eq!(resumed["paused"], false);
    assert_eq!(world.lease_one("q").await["id"], id);
}

async fn the_defaults_pass_the_window_proof(world: &World) {
    assert_eq!(world.queue("q", json!({})).await["warnings"], json!([]));
    let with_ledger = world.queue("r", json!({ "ledgerTtl": 72 * 3600 })).await;
    assert_eq!(with_ledger["warnings"], json!([]));
}

async fn a_window_that_is_too_short_is_said_and_by_how_much(world: &World) {
    let dead = 100 * 3600;
    let made = world.queue("q", json!({ "window": 3600, "retention": { "dead": dead } })).await;
    let warnings = made["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{made}");
    let words = warnings[0].as_str().unwrap();
    assert!(
        words.starts_with("window (1h) is too short by")
            && words.contains(&format!("at least {dead} seconds")),
        "{words}"
    );
    assert_eq!(world.client.get("/v1/queues/q").await.expect(200)["warnings"], made["warnings"]);
    let mended = world
        .client
        .put("/v1/queues/q", json!({ "window": dead, "retention": { "dead": dead } }))
        .await
        .expect(200);
    assert_eq!(mended["warnings"], json!([]));
    let released = json!({ "window": 3600, "retention": { "dead": dead }, "onDead": "release" });
    assert_eq!(
        world.client.put("/v1/queues/q", released).await.expect(200)["warnings"],
        json!([]),
        "a dead job holds nothing"
    );
}

async fn a_ledger_that_forgets_too_soon_is_said(world: &World) {
    let made = world.queue("q", json!({ "ledgerTtl": 3600 })).await;
    let words = made["warnings"][0].as_str().unwrap();
    assert!(words.to_lowercase().contains("ledger"), "{words}");
}

async fn a_queue_with_unfinished_jobs_stays(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
    let problem = world.client.delete("/v1/queues/q").await.problem(409, "queue_not_empty");
    assert!(problem["detail"].as_str().unwrap().contains('1'), "it says how many: {problem}");
    let leased = world.lease_one("q").await;
    world.client.delete("/v1/queues/q").await.problem(409, "queue_not_empty");
    world
        .client
        .post(&format!("/v1/jobs/{}/ack", leased["id"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    assert_eq!(world.client.delete("/v1/queues/q").await.status, 204);
}

async fn a_queue_that_is_gone_is_gone(world: &World) {
    world.queue("q", json!({})).await;
    assert_eq!(world.client.delete("/v1/queues/q").await.status, 204);
    world.client.delete("/v1/queues/q").await.problem(404, "queue_not_found");
    world.client.get("/v1/queues/q").await.problem(404, "queue_not_found");
    world.client.post("/v1/queues/q/jobs", json!({ "payload": 1 })).await.problem(404, "queue_not_found");
    assert_eq!(world.client.get("/v1/queues").await.expect(200)["queues"], json!([]));
    world.queue("q", json!({})).await;
    world.publish("q", json!({ "payload": 1 })).await;
}

/// Works so many jobs, each for so long.
async fn work(world: &World, count: usize, each: u64) {
    let jobs = vec![json!({ "payload": 1 }); count];
    world.client.post("/v1/queues/q/jobs/batch", json!({ "jobs": jobs })).await.expect(200);
    let leased = world.lease("q", u32::try_from(count).unwrap()).await;
    for (action, wait) in [("extend", each), ("ack", 0)] {
        let item = |job: &Value| json!({ "id": job["id"], "action": action, "lease": job["lease"], "seconds": 3600 });
        let items: Vec<_> = leased.iter().map(item).collect();
        let answer = world.client.post("/v1/settle", json!({ "items": items })).await.expect(200);
        assert!(
            answer["results"].as_array().unwrap().iter().all(|result| result["accepted"] == true),
            "{answer}"
        );
        world.advance(secs(wait));
    }
}

async fn handler_times_are_measured(world: &World) {
    assert_eq!(world.queue("q", json!({})).await["handlerTime"], Value::Null);
    work(world, 9, 2).await;
    work(world, 1, 30).await;
    let shown = world.client.get("/v1/queues/q").await.expect(200);
    let measured = &shown["handlerTime"];
    assert_eq!(measured["count"], 10);
    let near = |found: &Value, wanted: f64| (found.as_f64().unwrap() / wanted - 1.0).abs() < 0.02;
    assert!(near(&measured["p50"], 2.0) && near(&measured["p99"], 30.0), "{measured}");
}

async fn a_lease_shorter_than_the_work_is_said(world: &World) {
    let mut events = world.events("/v1/events").await;
    world.queue("q", json!({ "delivery": { "type": "pull", "leaseSeconds": 60 } })).await;
    work(world, 49, 90).await;
    let few = world.client.get("/v1/queues/q").await.expect(200);
    assert_eq!(few["warnings"], json!([]), "too few to tell");
    work(world, 1, 90).await;
    let shown = world.client.get("/v1/queues/q").await.expect(200);
    let words = shown["warnings"][0].as_str().unwrap();
    assert!(words.contains("delivery.leaseSeconds is 1m"), "{words}");
    world.advance(secs(60));
    let advice = events.next_of("advice.lease").await;
    assert_eq!((&advice["queue"], &advice["detail"]), (&json!("q"), &json!(words)));
    let longer = json!({ "delivery": { "type": "pull", "leaseSeconds": 120 } });
    assert_eq!(world.client.put("/v1/queues/q", longer).await.expect(200)["warnings"], json!([]));
}

async fn a_secret_is_shown_when_it_is_made(world: &World) {
    world.queue("q", json!({ "delivery": { "type": "push", "url": "https://worker.example/" } })).await;
    let rotate = async |body: Value| world.client.post("/v1/queues/q/secrets/rotate", body).await;
    let first = rotate(json!({})).await.expect(200);
    assert_eq!(
        first["previousExpiresAt"], "2026-11-16T12:00:00.000Z",
        "the one it was made with goes on for a day"
    );
    let second = rotate(json!({ "overlap": 60 })).await.expect(200);
    assert_eq!(second["previousExpiresAt"], "2026-11-15T12:01:00.000Z");
    assert_ne!(first["secret"], second["secret"]);
    rotate(json!({ "overlap": -1 })).await.problem(400, "invalid");
}
