//! Persistent duplicates: keys and effects that keep coming back are listed, counted, told of, and buried where the queue
//! asks for it.

use serde_json::{Value, json};

use crate::kit::{World, eventually, scenarios, secs};

scenarios!(
    duplicates_are_counted_and_listed,
    a_listing_of_duplicates_can_be_narrowed,
    a_persistent_duplicate_is_told_of_once,
    a_persistent_duplicate_is_buried_where_the_queue_asks,
    a_finished_job_is_told_of_but_not_buried,
    effects_that_come_back_count_too,
    a_queue_without_a_limit_leaves_duplicates_alone,
);

async fn publish(world: &World, key: &str, times: usize) -> String {
    let mut id = Value::Null;
    for _ in 0..times {
        let answer =
            world.client.post("/v1/queues/q/jobs", json!({ "payload": 1, "idempotencyKey": key })).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        id = answer.json["id"].clone();
    }
    id.as_str().unwrap().to_owned()
}

async fn listed(world: &World, query: &str) -> Vec<String> {
    let page = world.client.get(&format!("/v1/jobs?{query}")).await.expect(200);
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

async fn persistent(world: &World) -> Option<String> {
    let text = world.client.get("/metrics").await.text;
    let line = text.lines().find(|line| line.starts_with("semel_persistent_duplicates_total{queue=\"q\"}"));
    line.and_then(|line| line.rsplit_once(' ')).map(|(_, count)| count.to_owned())
}

async fn duplicates_are_counted_and_listed(world: &World) {
    world.queue("q", json!({})).await;
    let thrice = publish(world, "thrice", 4).await;
    let twice = publish(world, "twice", 3).await;
    let once = publish(world, "once", 2).await;
    publish(world, "never", 1).await;
    assert_eq!(world.job(&thrice).await["duplicates"], 3);
    assert_eq!(listed(world, "duplicated=3").await, [thrice.as_str()]);
    assert_eq!(listed(world, "duplicated=2").await, [twice.as_str(), thrice.as_str()]);
    assert_eq!(listed(world, "duplicated=1").await, [once.as_str(), twice.as_str(), thrice.as_str()]);
    assert!(listed(world, "duplicated=4").await.is_empty());
    let text = world.client.get("/metrics").await.text;
    assert!(text.contains("semel_job_duplicates_total{queue=\"q\",door=\"publish\"} 6\n"), "{text}");
}

async fn a_listing_of_duplicates_can_be_narrowed(world: &World) {
    world.queue("q", json!({})).await;
    world.queue("other", json!({})).await;
    let pending = publish(world, "a", 2).await;
    for status in [201, 200] {
        let body = json!({ "payload": 1, "idempotencyKey": "a" });
        assert_eq!(world.client.post("/v1/queues/other/jobs", body).await.status, status);
    }
    assert_eq!(listed(world, "duplicated=1").await.len(), 2);
    assert_eq!(listed(world, "duplicated=1&queue=q").await, [pending.as_str()]);
    assert!(listed(world, "duplicated=1&queue=q&status=completed").await.is_empty());
    let leased = world.lease_one("q").await;
    world
        .client
        .post(&format!("/v1/jobs/{pending}/ack"), json!({ "lease": leased["lease"] }))
        .await
        .expect(200);
    assert_eq!(listed(world, "duplicated=1&queue=q&status=completed").await, [pending.as_str()]);
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.client.get(&format!("/v1/jobs?duplicated=1&limit=1{cursor}")).await.expect(200);
        found.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["queue"].clone()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(found), json!(["other", "q"]), "page by page, newest first");
}

async fn a_persistent_duplicate_is_told_of_once(world: &World) {
    world.queue("q", json!({ "duplicates": { "limit": 2 } })).await;
    let mut events = world.events("/v1/events?queue=q").await;
    let id = publish(world, "k", 3).await;
    let told = events.next_of("duplicate.persistent").await;
    assert_eq!(told["job"], id);
    assert!(told["detail"].as_str().unwrap().contains("published again 2 times"), "{told}");
    publish(world, "k", 3).await;
    let other = publish(world, "other", 3).await;
    assert_eq!(events.next_of("duplicate.persistent").await["job"], other, "the first is not told of again");
    assert_eq!(persistent(world).await.as_deref(), Some("2"));
    assert_eq!(world.job(&id).await["status"], "pending", "counting does not stop it");
}

async fn a_persistent_duplicate_is_buried_where_the_queue_asks(world: &World) {
    world.queue("q", json!({ "duplicates": { "limit": 2, "action": "dead" } })).await;
    let id = publish(world, "k", 2).await;
    assert_eq!(world.job(&id).await["status"], "pending");
    publish(world, "k", 1).await;
    let dead = world.until(&id, "dead").await;
    let words = dead["lastError"].as_str().unwrap();
    assert!(words.starts_with("persistent duplicate: published again 2 times"), "{words}");
    assert!(world.lease("q", 1).await.is_empty());
    let letters = world.client.get("/v1/queues/q/dead").await.expect(200);
    assert_eq!(letters["jobs"][0]["id"], id);
    world.client.post(&format!("/v1/jobs/{id}/replay"), json!({})).await.expect(200);
    assert_eq!(world.lease_one("q").await["id"], id, "a person may decide otherwise");
}

async fn a_finished_job_is_told_of_but_not_buried(world: &World) {
    world.queue("q", json!({ "duplicates": { "limit": 1, "action": "dead" } })).await;
    let mut events = world.events("/v1/events?queue=q").await;
    let id = publish(world, "k", 1).await;
    world.lease_one("q").await;
    world.client.post(&format!("/v1/jobs/{id}/ack"), json!({})).await.expect(200);
    publish(world, "k", 1).await;
    assert_eq!(events.next_of("duplicate.persistent").await["job"], id);
    assert_eq!(world.job(&id).await["status"], "completed");
}

async fn effects_that_come_back_count_too(world: &World) {
    let retry = json!({ "strategy": "fixed", "base": 1, "jitter": "none" });
    world.queue("q", json!({ "duplicates": { "limit": 1 }, "retry": retry })).await;
    let id = publish(world, "k", 1).await;
    world.lease_one("q").await;
    world.advance(secs(61));
    world.until(&id, "pending").await;
    world.advance(secs(1));
    let again = world.lease_one("q").await;
    let ack = json!({ "lease": again["lease"], "effect": { "outcome": "replayed" } });
    world.client.post(&format!("/v1/jobs/{id}/ack"), ack).await.expect(200);
    assert_eq!(listed(world, "duplicated=1").await, [id.as_str()]);
    assert_eq!(world.job(&id).await["duplicates"], 0, "no publish was answered with it");
    assert_eq!(eventually(async || persistent(world).await).await, "1");
}

async fn a_queue_without_a_limit_leaves_duplicates_alone(world: &World) {
    world.queue("q", json!({})).await;
    world.queue("judged", json!({ "duplicates": { "limit": 1 } })).await;
    let mut events = world.events("/v1/events").await;
    let id = publish(world, "k", 20).await;
    for status in [201, 200] {
        let body = json!({ "payload": 1, "idempotencyKey": "k" });
        assert_eq!(world.client.post("/v1/queues/judged/jobs", body).await.status, status);
    }
    assert_eq!(
        events.next_of("duplicate.persistent").await["queue"],
        "judged",
        "suspects are judged in order"
    );
    assert_eq!((&world.job(&id).await["status"], persistent(world).await), (&json!("pending"), None));
}
