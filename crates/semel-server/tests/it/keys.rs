//! Keys: what holds one, for how long, and everything that happened under it.

use std::path::Path;

use semel_server::service::{AuthMode, Options};
use serde_json::{Value, json};

use crate::kit::{World, eventually, millis, scenarios, secs};

scenarios!(
    a_key_belongs_to_its_queue,
    a_key_holds_while_its_job_is_unfinished_however_long,
    a_key_ends_exactly_with_its_window,
    a_publish_may_have_a_window_of_its_own,
    a_key_outlives_the_payload_of_its_job,
    a_timeline_tells_everything_in_order,
    a_timeline_tells_of_a_replay,
    a_timeline_tells_when_the_key_ends,
    a_released_key_is_free_and_says_why,
    a_dead_job_keeps_its_key,
    a_dead_job_may_be_revived_by_a_publish,
    a_dead_job_may_give_up_its_key,
    a_queue_may_require_keys,
    a_queue_may_say_what_a_key_looks_like,
);

mod named {
    use super::*;

    scenarios!(with guarded: a_timeline_says_who_was_suppressed);

    fn guarded(_: &Path) -> Options {
        Options { auth: AuthMode::Keys, ..Options::default() }
    }
}

fn keyed(payload: u32) -> Value {
    json!({ "payload": payload, "idempotencyKey": "k" })
}

async fn again(world: &World, payload: u32) -> Value {
    world.client.post("/v1/queues/q/jobs", keyed(payload)).await.expect(200)
}

async fn settle(world: &World, leased: &Value, verb: &str, mut body: Value) -> Value {
    body["lease"] = leased["lease"].clone();
    world.client.post(&format!("/v1/jobs/{}/{verb}", leased["id"].as_str().unwrap()), body).await.expect(200)
}

async fn key(world: &World) -> Value {
    world.client.get("/v1/queues/q/keys/k").await.expect(200)
}

fn events(key: &Value) -> Vec<&str> {
    key["timeline"].as_array().unwrap().iter().map(|moment| moment["event"].as_str().unwrap()).collect()
}

/// Publishes under the key and has the job die.
async fn dead(world: &World, config: Value) -> Value {
    world.queue("q", config).await;
    let first = world.publish("q", keyed(1)).await;
    let leased = world.lease_one("q").await;
    settle(world, &leased, "nack", json!({ "retryable": false, "reason": "no such customer" })).await;
    assert_eq!(world.job(first["id"].as_str().unwrap()).await["status"], "dead");
    first
}

async fn a_key_belongs_to_its_queue(world: &World) {
    for queue in ["q", "r"] {
        world.queue(queue, json!({})).await;
    }
    let first = world.publish("q", keyed(1)).await;
    let other = world.publish("r", keyed(1)).await;
    assert_ne!(first["id"], other["id"]);
    world.client.get("/v1/queues/r/keys/other").await.problem(404, "key_not_found");
}

async fn a_key_holds_while_its_job_is_unfinished_however_long(world: &World) {
    world.queue("q", json!({ "window": 1 })).await;
    let first = world.publish("q", keyed(1)).await;
    world.advance(secs(10 * 365 * 86_400));
    let later = again(world, 1).await;
    assert_eq!((&later["id"], &later["keyExpiresAt"]), (&first["id"], &Value::Null));
    assert_eq!(key(world).await["holds"], true);
}

async fn a_key_ends_exactly_with_its_window(world: &World) {
    world.queue("q", json!({ "window": 60 })).await;
    let first = world.publish("q", keyed(1)).await;
    world.advance(secs(1000));
    settle(world, &world.lease_one("q").await, "ack", json!({})).await;
    world.advance(millis(59_999));
    let last = again(world, 1).await;
    assert_eq!((&last["id"], &last["keyExpiresAt"]), (&first["id"], &json!("2026-11-15T12:17:40.000Z")));
    world.advance(millis(1));
    let fresh = world.publish("q", keyed(1)).await;
    assert_ne!(fresh["id"], first["id"]);
    assert_eq!(fresh["deduplicated"], false);
}

async fn a_publish_may_have_a_window_of_its_own(world: &World) {
    world.queue("q", json!({ "window": 3600 })).await;
    let first = world.publish("q", json!({ "payload": 1, "idempotencyKey": "k", "window": 0.25 })).await;
    settle(world, &world.lease_one("q").await, "ack", json!({})).await;
    world.advance(millis(249));
    assert_eq!(again(world, 1).await["id"], first["id"]);
    world.advance(millis(1));
    assert_ne!(world.publish("q", keyed(1)).await["id"], first["id"]);
}

/// How long a key dedupes and how long a job is kept are two settings.
async fn a_key_outlives_the_payload_of_its_job(world: &World) {
    world.queue("q", json!({ "window": 7200, "retention": { "completed": 60 } })).await;
    let first = world.publish("q", keyed(1)).await;
    settle(world, &world.lease_one("q").await, "ack", json!({ "result": "done" })).await;
    world.advance(secs(3600));
    let id = first["id"].as_str().unwrap();
    let stripped =
        eventually(async || Some(world.job(id).await).filter(|job| job["payload"].is_null())).await;
    assert_eq!((&stripped["status"], &stripped["result"]), (&json!("completed"), &Value::Null));
    for (payload, matches) in [(1, true), (2, false)] {
        let later = again(world, payload).await;
        assert_eq!((&later["id"], &later["payloadMatches"]), (&first["id"], &json!(matches)));
    }
    world.advance(secs(3600));
    assert_ne!(world.publish("q", keyed(1)).await["id"], first["id"]);
}

async fn a_timeline_tells_everything_in_order(world: &World) {
    world.queue("q", json!({ "window": 60, "retry": { "base": 5, "jitter": "none" } })).await;
    world.publish("q", keyed(1)).await;
    world.advance(secs(1));
    again(world, 1).await;
    world.advance(secs(1));
    again(world, 2).await;
    let first = world.lease_one("q").await;
    world.advance(secs(1));
    settle(world, &first, "nack", json!({ "reason": "card declined" })).await;
    world.advance(secs(5));
    let second = world.lease_one("q").await;
    world.advance(secs(1));
    settle(world, &second, "ack", json!({ "effect": { "outcome": "replayed", "key": "charge-1" } })).await;
    let key = key(world).await;
    assert_eq!((&key["duplicates"], &key["expiresAt"]), (&json!(2), &json!("2026-11-15T12:01:09.000Z")));
    assert_eq!(key["job"]["id"], first["id"]);
    let timeline = key["timeline"].as_array().unwrap();
    let told: Vec<_> = timeline
        .iter()
        .map(|moment| (moment["at"].as_str().unwrap(), moment["event"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("2026-11-15T12:00:00.000Z", "published"),
            ("2026-11-15T12:00:01.000Z", "suppressed"),
            ("2026-11-15T12:00:02.000Z", "suppressed"),
            ("2026-11-15T12:00:02.000Z", "leased"),
            ("2026-11-15T12:00:03.000Z", "delivered"),
            ("2026-11-15T12:00:08.000Z", "leased"),
            ("2026-11-15T12:00:09.000Z", "delivered"),
            ("2026-11-15T12:00:09.000Z", "effect"),
            ("2026-11-15T12:00:09.000Z", "ended"),
            ("2026-11-15T12:01:09.000Z", "expires"),
        ]
    );
    assert_eq!(
        (&timeline[1]["payloadMatches"], &timeline[2]["payloadMatches"]),
        (&json!(true), &json!(false))
    );
    assert_eq!((&timeline[4]["status"], &timeline[4]["detail"]), (&json!("nacked"), &json!("card declined")));
    assert_eq!((&timeline[4]["attempt"], &timeline[6]["attempt"]), (&json!(1), &json!(2)));
    assert_eq!(timeline[6]["status"], "success");
    assert_eq!(timeline[7]["effect"], json!({ "outcome": "replayed", "key": "charge-1" }));
    assert_eq!(timeline[8]["status"], "completed");
}

async fn a_timeline_says_who_was_suppressed(world: &World) {
    world.queue("q", json!({})).await;
    world.publish("q", keyed(1)).await;
    let made = world
        .client
        .post("/v1/api-keys", json!({ "label": "checkout", "scopes": ["publish"] }))
        .await
        .expect(201);
    let checkout = world.client.with_secret(made["secret"].as_str());
    checkout.post("/v1/queues/q/jobs", keyed(2)).await.expect(200);
    let key = key(world).await;
    let suppressed = &key["timeline"][1];
    assert_eq!(
        (&suppressed["publisher"], &suppressed["payloadMatches"]),
        (&json!("checkout"), &json!(false))
    );
    let body = Some(json!({ "reason": "wrong order" }).to_string());
    world.client.send(http::Method::DELETE, "/v1/queues/q/keys/k", &[], body).await.expect(200);
    let released = self::key(world).await["timeline"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&released["event"], &released["detail"]),
        (&json!("released"), &json!("wrong order (by boss)"))
    );
}

async fn a_timeline_tells_of_a_replay(world: &World) {
    let first = dead(world, json!({})).await;
    world.advance(secs(60));
    world
        .client
        .post(&format!("/v1/jobs/{}/replay", first["id"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    let key = key(world).await;
    assert_eq!(events(&key), ["published", "leased", "delivered", "replayed"]);
    assert_eq!(key["timeline"][3]["at"], "2026-11-15T12:01:00.000Z");
    assert_eq!((&key["holds"], &key["expiresAt"]), (&json!(true), &Value::Null), "it is unfinished again");
}

async fn a_timeline_tells_when_the_key_ends(world: &World) {
    world.queue("q", json!({ "window": 60 })).await;
    world.publish("q", keyed(1)).await;
    settle(world, &world.lease_one("q").await, "ack", json!({})).await;
    world.advance(millis(59_999));
    let before = key(world).await;
    assert_eq!((events(&before).last(), &before["holds"]), (Some(&"expires"), &json!(true)));
    world.advance(millis(1));
    let after = key(world).await;
    assert_eq!((events(&after).last(), &after["holds"]), (Some(&"expired"), &json!(false)));
    assert_eq!(after["expiresAt"], "2026-11-15T12:01:00.000Z");
}

async fn a_released_key_is_free_and_says_why(world: &World) {
    world.queue("q", json!({})).await;
    let first = world.publish("q", keyed(1)).await;
    let release = async |body: Value| {
        world.client.send(http::Method::DELETE, "/v1/queues/q/keys/k", &[], Some(body.to_string())).await
    };
    release(json!({ "reason": "x".repeat(501) })).await.problem(400, "invalid");
    let released = release(json!({ "reason": "published by mistake" })).await.expect(200);
    assert_eq!(released, json!({ "id": first["id"], "released": true }));
    let key = key(world).await;
    assert_eq!(key["holds"], false);
    assert_eq!(key["timeline"].as_array().unwrap().last().unwrap()["detail"], "published by mistake");
    let job = world.job(first["id"].as_str().unwrap()).await;
    assert_eq!((&job["keyReleased"], &job["status"]), (&json!("published by mistake"), &json!("pending")));
    let second = world.publish("q", keyed(1)).await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(self::key(world).await["job"]["id"], second["id"], "the newest job is shown");
    assert_eq!(world.lease("q", 10).await.len(), 2, "both run: that is what a release means");
}

async fn a_dead_job_keeps_its_key(world: &World) {
    let first = dead(world, json!({})).await;
    let later = again(world, 1).await;
    assert_eq!((&later["id"], &later["status"]), (&first["id"], &json!("dead")));
    assert!(world.lease("q", 1).await.is_empty());
}

async fn a_dead_job_may_be_revived_by_a_publish(world: &World) {
    let first = dead(world, json!({ "onDead": "revive" })).await;
    world.advance(secs(1));
    let later = again(world, 1).await;
    assert_eq!((&later["id"], &later["status"]), (&first["id"], &json!("pending")));
    assert_eq!((&later["deduplicated"], &later["keyExpiresAt"]), (&json!(true), &Value::Null));
    world.advance(secs(1));
    let leased = world.lease_one("q").await;
    assert_eq!(
        (&leased["id"], &leased["attempt"], &leased["idempotencyKey"]),
        (&first["id"], &json!(1), &json!("k"))
    );
    settle(world, &leased, "ack", json!({})).await;
    assert_eq!(
        events(&key(world).await),
        [
            "published",
            "leased",
            "delivered",
            "suppressed",
            "replayed",
            "leased",
            "delivered",
            "ended",
            "expires"
        ]
    );
}

async fn a_dead_job_may_give_up_its_key(world: &World) {
    let first = dead(world, json!({ "onDead": "release" })).await;
    let second = world.publish("q", keyed(1)).await;
    assert_ne!(second["id"], first["id"]);
    let old = world.job(first["id"].as_str().unwrap()).await;
    assert_eq!(old["status"], "dead");
    assert!(old["keyReleased"].as_str().unwrap().contains("onDead"), "{old}");
    assert_eq!(again(world, 1).await["id"], second["id"]);
}

async fn a_queue_may_require_keys(world: &World) {
    world.queue("q", json!({ "requireKey": true })).await;
    world.client.post("/v1/queues/q/jobs", json!({ "payload": 1 })).await.problem(400, "key_required");
    world.publish("q", keyed(1)).await;
    let headers = [("idempotency-key", "other")];
    let body = Some(json!({ "payload": 1 }).to_string());
    world.client.send(http::Method::POST, "/v1/queues/q/jobs", &headers, body).await.expect(201);
    let batch = json!({ "jobs": [{ "payload": 1 }, { "payload": 1, "idempotencyKey": "third" }] });
    let answer = world.client.post("/v1/queues/q/jobs/batch", batch).await.expect(200);
    assert_eq!(
        (&answer["results"][0]["code"], &answer["results"][1]["deduplicated"]),
        (&json!("key_required"), &json!(false))
    );
}

async fn a_queue_may_say_what_a_key_looks_like(world: &World) {
    world.queue("q", json!({ "keyPattern": "order-[0-9]+" })).await;
    for wrong in ["order-", "order-1x", "xorder-1", "0b9cb6b1-3b0e-4d3f-8f3b-1e3f5f6c7d8e", "order-1\u{a0}"] {
        let body = json!({ "payload": 1, "idempotencyKey": wrong });
        let problem = world.client.post("/v1/queues/q/jobs", body).await.problem(422, "key_pattern");
        assert!(
            problem["detail"].as_str().unwrap().contains("order-[0-9]+"),
            "it says what was expected: {problem}"
        );
    }
    world.publish("q", json!({ "payload": 1, "idempotencyKey": "order-9482" })).await;
    world.publish("q", json!({ "payload": 1 })).await;
}
