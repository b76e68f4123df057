//! Keys that do not work as keys.

use serde_json::{Value, json};

use super::{advice, codes, finding, publish};
use crate::kit::{World, scenarios, secs};

scenarios!(bad_keys_are_recognised, collisions_and_loops_are_told_of,);

/// A number that looks drawn.
fn drawn(n: u64) -> String {
    let scattered = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{scattered:016x}{:016x}", scattered.rotate_left(23).wrapping_mul(0xff51_afd7_ed55_8ccd))
}

async fn bad_keys_are_recognised(world: &World) {
    for queue in ["drawn", "timed", "minted", "here", "there"] {
        world.queue(queue, json!({})).await;
    }
    for n in 0..6_u64 {
        let millis = world.now().millis();
        publish(world, "drawn", [(format!("order-17-{}", drawn(n)), json!({ "order": 17 }))]).await;
        publish(world, "timed", [(format!("order-17-{millis}"), json!({ "order": 17 }))]).await;
        let minted = (0..5).map(|i| (format!("e{i}-{}", millis - 3), json!({ "event": 10 * n + i })));
        publish(world, "minted", minted).await;
        for queue in ["here", "there"] {
            publish(world, queue, [(format!("order-{n}"), json!({ "order": n }))]).await;
        }
        world.advance(secs(7));
    }
    let random = finding(world, "drawn", "keys_random", &["keyPattern", "every try"]).await;
    assert_eq!((&random["severity"], &random["evidence"]["payloads"]), (&json!("warning"), &json!(1)));
    let sample = &random["evidence"]["samples"][0];
    assert_eq!((&sample["keys"], &sample["within"]), (&json!(6), &json!(28)), "{random:#}");
    assert!(sample["key"].as_str().unwrap().starts_with("order-17-"), "{sample}");
    let timed = finding(world, "timed", "keys_timestamp", &["without the time", "keyPattern"]).await;
    assert_eq!(timed["severity"], "warning");
    let minted = finding(world, "minted", "keys_timestamp", &["Make the key"]).await;
    assert_eq!((&minted["severity"], &minted["evidence"]["withTime"]), (&json!("info"), &json!(30)));
    let reused = finding(world, "here", "keys_reused", &["one queue"]).await;
    assert_eq!((&reused["severity"], &reused["evidence"]["otherQueue"]), (&json!("info"), &json!("there")));
    assert_eq!(reused["evidence"]["samePayload"], 6);
    assert_eq!(codes(world).await.len(), 4, "and nothing else: {:#?}", advice(world).await);
    let node = world.client.get("/v1/advice").await.expect(200)["node"].clone();
    assert_eq!(node, "semel", "which node has seen all this");
    let since = random["since"].clone();
    world.advance(secs(300));
    assert_eq!(finding(world, "drawn", "keys_random", &[]).await["since"], since, "it is known since then");
    world.advance(secs(2 * 3600));
    let left = advice(world).await;
    assert!(
        left.iter().all(|finding| finding["code"] == "no_worker"),
        "what is over is not told of: {left:#?}"
    );
}

/// Publishes one key with these payloads, one after the other.
async fn one_key(world: &World, queue: &str, payloads: impl Iterator<Item = Value>) {
    for payload in payloads {
        publish(world, queue, [("daily".to_owned(), payload)]).await;
    }
}

async fn collisions_and_loops_are_told_of(world: &World) {
    world.queue("coarse", json!({})).await;
    world.queue("strict", json!({ "onCollision": "reject" })).await;
    world.queue("once", json!({})).await;
    world.queue("loop", json!({ "duplicates": { "limit": 5 } })).await;
    world.queue("calm", json!({})).await;
    one_key(world, "coarse", (0..5).map(|n| json!({ "order": n }))).await;
    one_key(world, "strict", (0..5).map(|n| json!({ "order": n }))).await;
    one_key(world, "once", (0..2).map(|n| json!({ "order": n }))).await;
    one_key(world, "loop", (0..6).map(|_| json!({ "order": 1 }))).await;
    one_key(world, "calm", (0..6).map(|_| json!({ "order": 1 }))).await;
    let coarse = finding(world, "coarse", "keys_coarse", &["onCollision", "collisionIgnore"]).await;
    assert_eq!(coarse["severity"], "critical", "work is lost");
    let sample = json!({ "key": "daily", "publishes": 4, "otherPayloads": 4, "lastAt": world.in_secs(0) });
    assert_eq!(coarse["evidence"]["samples"], json!([sample]));
    let strict = finding(world, "strict", "keys_coarse", &["finer"]).await;
    assert_eq!(strict["severity"], "warning", "publishers are told");
    finding(world, "once", "collisions", &["onCollision"]).await;
    let persistent = finding(world, "loop", "duplicates_persistent", &["duplicates"]).await;
    assert_eq!(persistent["evidence"]["samples"][0]["publishedAgain"], 5);
    // The same key is in five queues, which is told of besides.
    let found = codes(world).await;
    assert_eq!(found.iter().filter(|(_, code)| code != "keys_reused").count(), 4, "{found:?}");
}
