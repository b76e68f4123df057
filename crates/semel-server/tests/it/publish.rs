//! Publishing: one job per key, whoever asks and however often.

use serde_json::json;

use crate::kit::{World, scenarios, secs};

scenarios!(
    a_publish_makes_a_job,
    a_publish_repeated_returns_the_first_job,
    the_key_may_come_in_the_header,
    a_collision_is_flagged_or_rejected,
    a_batch_answers_each_item,
    a_caller_may_wait_for_the_result,
);

async fn a_publish_makes_a_job(world: &World) {
    world.queue("mail", json!({})).await;
    let made = world.publish("mail", json!({ "payload": { "to": "a@example.com" } })).await;
    assert_eq!(made["deduplicated"], false);
    assert_eq!(made["payloadMatches"], true);
    assert_eq!(made["queue"], "mail");
    let job = world.job(made["id"].as_str().unwrap()).await;
    assert_eq!(job["status"], "pending");
    assert_eq!(job["payload"], json!({ "to": "a@example.com" }));
    assert_eq!(job["scheduledFor"], job["createdAt"]);
    for null in ["idempotencyKey", "lastError", "completedAt", "result", "effect", "group"] {
        assert!(job.get(null).is_some_and(serde_json::Value::is_null), "{null} is null, never absent: {job}");
    }
}

async fn a_publish_repeated_returns_the_first_job(world: &World) {
    world.queue("orders", json!({})).await;
    let body = json!({ "payload": { "order": 9482 }, "idempotencyKey": "order-9482" });
    let first = world.publish("orders", body.clone()).await;
    let again = world.client.post("/v1/queues/orders/jobs", body.clone()).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let again = again.expect(200);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["deduplicated"], true);
    let leased = world.lease_one("orders").await;
    world
        .client
        .post(&format!("/v1/jobs/{}/ack", leased["id"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    world.advance(secs(3600));
    let later = world.client.post("/v1/queues/orders/jobs", body).await.expect(200);
    assert_eq!((&later["id"], &later["status"]), (&first["id"], &json!("completed")));
    assert!(later["keyExpiresAt"].is_string());
}

async fn the_key_may_come_in_the_header(world: &World) {
    world.queue("q", json!({})).await;
    let send = async |header: &str, body: serde_json::Value| {
        let headers = [("idempotency-key", header)];
        world.client.send(http::Method::POST, "/v1/queues/q/jobs", &headers, Some(body.to_string())).await
    };
    let first = send("\"k 1\"", json!({ "payload": 1 })).await.expect(201);
    let bare = send("k 1", json!({ "payload": 1, "idempotencyKey": "k 1" })).await.expect(200);
    assert_eq!(bare["id"], first["id"]);
    send("k 1", json!({ "payload": 1, "idempotencyKey": "k 2" })).await.problem(400, "invalid");
}

async fn a_collision_is_flagged_or_rejected(world: &World) {
    world.queue("flag", json!({})).await;
    world.queue("reject", json!({ "onCollision": "reject", "collisionIgnore": ["/sentAt"] })).await;
    let body = |amount: u32, sent: u32| json!({ "payload": { "amount": amount, "sentAt": sent }, "idempotencyKey": "k" });
    world.publish("flag", body(1, 1)).await;
    let flagged = world.client.post("/v1/queues/flag/jobs", body(2, 1)).await.expect(200);
    assert_eq!(flagged["payloadMatches"], false);
    let first = world.publish("reject", body(1, 1)).await;
    let same = world.client.post("/v1/queues/reject/jobs", body(1, 2)).await.expect(200);
    assert_eq!(same["payloadMatches"], true);
    let rejected =
        world.client.post("/v1/queues/reject/jobs", body(2, 2)).await.problem(422, "key_collision");
    assert_eq!(rejected["pointers"], json!(["/amount"]));
    assert_eq!(rejected["job"], first["id"]);
}

async fn a_batch_answers_each_item(world: &World) {
    world.queue("q", json!({})).await;
    let batch = json!({ "jobs": [
        { "payload": 1, "idempotencyKey": "a" },
        { "payload": 2, "idempotencyKey": "a" },
        { "payload": 3, "priority": 500, "delay": -1 },
        { "payload": 4 },
    ] });
    let answer = world.client.post("/v1/queues/q/jobs/batch", batch).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(results[0]["deduplicated"], false);
    assert_eq!((&results[1]["id"], &results[1]["payloadMatches"]), (&results[0]["id"], &json!(false)));
    assert_eq!(results[2]["code"], "invalid");
    assert!(results[3]["id"].is_string());
    for size in [0, 1001] {
        let jobs = vec![json!({ "payload": 1 }); size];
        world.client.post("/v1/queues/q/jobs/batch", json!({ "jobs": jobs })).await.problem(400, "invalid");
    }
}

async fn a_caller_may_wait_for_the_result(world: &World) {
    world.queue("q", json!({})).await;
    let client = world.client.clone();
    let waiting = tokio::spawn(async move {
        client.post("/v1/queues/q/jobs?wait=60", json!({ "payload": 1, "idempotencyKey": "k" })).await
    });
    let answer = world.client.post("/v1/queues/q/lease", json!({ "wait": 30 })).await.expect(200);
    let leased = &answer["jobs"][0];
    let ack = json!({ "lease": leased["lease"], "result": { "sum": 3 }, "effect": { "outcome": "applied", "key": "e" } });
    world.client.post(&format!("/v1/jobs/{}/ack", leased["id"].as_str().unwrap()), ack).await.expect(200);
    let job = waiting.await.unwrap().expect(200);
    assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &json!({ "sum": 3 })));
    assert_eq!(job["effect"], json!({ "outcome": "applied", "key": "e" }));
    let again =
        world.client.post("/v1/queues/q/jobs?wait=60", json!({ "payload": 1, "idempotencyKey": "k" })).await;
    assert_eq!(
        again.expect(200)["result"],
        json!({ "sum": 3 }),
        "a retried caller gets the first run's result"
    );
}
