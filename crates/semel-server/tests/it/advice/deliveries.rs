//! Deliveries that fail, run out or take too long.

use serde_json::{Value, json};

use super::{codes, finding, publish, settle, until_told_of};
use crate::kit::{Worker, World, answer, scenarios, secs};

scenarios!(deliveries_that_end_badly_are_told_of, an_endpoint_that_always_fails_is_told_of,);

fn orders(range: std::ops::Range<u64>) -> impl Iterator<Item = (String, Value)> {
    range.map(|n| (format!("order-{n}"), json!({ "order": n })))
}

async fn deliveries_that_end_badly_are_told_of(world: &World) {
    let fixed = json!({ "strategy": "fixed", "base": 1, "jitter": "none" });
    for queue in ["storm", "dying", "expiring", "slow"] {
        world
            .queue(queue, json!({ "retry": fixed, "delivery": { "type": "pull", "leaseSeconds": 10 } }))
            .await;
    }
    publish(world, "storm", orders(0..30)).await;
    let leased = world.lease("storm", 30).await;
    settle(world, &leased[..24], &json!({ "action": "nack", "reason": "no route" })).await;
    settle(world, &leased[24..], &json!({ "action": "ack" })).await;
    publish(world, "dying", orders(100..130)).await;
    let leased = world.lease("dying", 30).await;
    settle(world, &leased[..11], &json!({ "action": "nack", "retryable": false })).await;
    settle(world, &leased[11..], &json!({ "action": "ack" })).await;
    publish(world, "slow", orders(200..250)).await;
    let leased = world.lease("slow", 50).await;
    for delivery in &leased {
        world.settle("extend", delivery, json!({ "seconds": 100 })).await.expect(200);
    }
    publish(world, "expiring", orders(300..312)).await;
    assert_eq!(world.lease("expiring", 12).await.len(), 12);
    world.advance(secs(20));
    settle(world, &leased, &json!({ "action": "ack" })).await;
    world.until_queue("expiring", |queue| queue["counts"]["processing"] == 0).await;
    // The store shows what a commit did a moment before the server has read its answers, which are what advice is made of.
    until_told_of(world, "expiring", "leases_expiring").await;

    let storm = finding(world, "storm", "retry_storm", &["breaker", "retry.base to 2 seconds"]).await;
    assert_eq!((&storm["evidence"]["failed"], &storm["evidence"]["done"]), (&json!(24), &json!(6)));
    assert!(storm["meaning"].as_str().unwrap().contains("5.0 deliveries for each job"), "{storm:#}");
    let dying =
        finding(world, "dying", "dead_letters_growing", &["groupBy=error", "maxAttempts above 10"]).await;
    assert_eq!((&dying["evidence"]["dead"], &dying["evidence"]["deadLetters"]), (&json!(11), &json!(11)));
    let slow = finding(world, "slow", "lease_short", &["Set delivery.leaseSeconds to 3"]).await;
    assert_eq!(
        (&slow["evidence"]["has"], &slow["evidence"]["setting"]),
        (&json!(10), &json!("delivery.leaseSeconds"))
    );
    let expiring =
        finding(world, "expiring", "leases_expiring", &["Set delivery.leaseSeconds to 20 seconds"]).await;
    assert_eq!(expiring["evidence"]["expired"], 12);
    assert_eq!(codes(world).await.len(), 4, "and nothing else: {:?}", codes(world).await);
}

async fn an_endpoint_that_always_fails_is_told_of(world: &World) {
    let mut worker = Worker::start().await;
    worker.answers(|_| answer(500, &[], "no"));
    let config = json!({ "maxAttempts": 1, "concurrency": 4 });
    world.push_queue("hooks", &worker, json!({}), config).await;
    let broken = json!({ "maxAttempts": 1, "concurrency": 1, "breaker": { "failures": 1, "cooldown": 60 } });
    world.push_queue("broken", &worker, json!({}), broken).await;
    publish(world, "hooks", orders(0..10)).await;
    publish(world, "broken", orders(20..30)).await;
    world.until_queue("hooks", |queue| queue["counts"]["dead"] == 10).await;
    until_told_of(world, "hooks", "endpoint_failing").await;
    let failing = finding(world, "hooks", "endpoint_failing", &["delivery.url", "breaker", "pause"]).await;
    assert_eq!(
        (&failing["severity"], &failing["evidence"]["url"]),
        (&json!("critical"), &json!(worker.url()))
    );
    // Each probe fails and the breaker stays open, which is told of when it has lasted.
    for minute in 0..5 {
        world.until_queue("broken", |queue| queue["counts"]["dead"] == minute + 1).await;
        assert!(codes(world).await.iter().all(|(_, code)| code != "breaker_open"), "after {minute} minutes");
        world.advance(secs(60));
    }
    world.until_queue("broken", |queue| queue["counts"]["dead"] == 6).await;
    let open = finding(world, "broken", "breaker_open", &["breaker.cooldown"]).await;
    assert_eq!((&open["severity"], &open["evidence"]["pending"]), (&json!("critical"), &json!(4)));
    drop(worker.calls_so_far());
}
