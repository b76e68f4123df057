//! Queues in which nothing moves.

use serde_json::json;

use super::{codes, finding, publish};
use crate::kit::{World, scenarios, secs};

scenarios!(what_stands_still_is_told_of_once_it_lasts);

async fn what_stands_still_is_told_of_once_it_lasts(world: &World) {
    for queue in ["paused", "held", "lonely", "planned"] {
        world.queue(queue, json!({})).await;
    }
    world.queue("limited", json!({ "rate": { "count": 1, "per": 36000, "burst": 1 } })).await;
    for queue in ["paused", "held", "lonely", "limited"] {
        publish(world, queue, (0..3).map(|n| (format!("{queue}-{n}"), json!({ "order": n })))).await;
    }
    world.publish("planned", json!({ "payload": 1, "delay": 86400 })).await;
    world.client.post("/v1/queues/paused/pause", json!({})).await.expect(200);
    let leased = world.lease_one("held").await;
    world.settle("defer", &leased, json!({ "retryAfter": 500 })).await.expect(200);
    // Its rate is used up, so nobody gets anything, however many ask.
    let leased = world.lease_one("limited").await;
    world.settle("ack", &leased, json!({})).await.expect(200);
    assert_eq!(codes(world).await, [], "it has only begun");

    world.advance(secs(301));
    assert_eq!(codes(world).await, [("lonely".to_owned(), "no_worker".to_owned())]);
    let lonely = finding(world, "lonely", "no_worker", &["/v1/queues/lonely/lease", "delivery"]).await;
    assert_eq!((&lonely["severity"], &lonely["evidence"]["pending"]), (&json!("critical"), &json!(3)));
    // The probe goes out when the hold is over, and asks for more.
    world.advance(secs(200));
    let probe = world.lease_one("held").await;
    world.settle("defer", &probe, json!({ "retryAfter": 500 })).await.expect(200);
    world.advance(secs(400));
    let paused = finding(world, "paused", "paused_backlog", &["/v1/queues/paused/resume"]).await;
    assert_eq!((&paused["severity"], &paused["evidence"]["pending"]), (&json!("warning"), &json!(3)));
    finding(world, "held", "held_long", &["deferScope", "rate"]).await;
    assert_eq!(codes(world).await.len(), 3, "and nothing else: {:?}", codes(world).await);

    world.client.post("/v1/queues/paused/resume", json!({})).await.expect(200);
    for queue in ["paused", "lonely"] {
        assert_eq!(world.lease(queue, 3).await.len(), 3);
    }
    assert_eq!(codes(world).await, [("held".to_owned(), "held_long".to_owned())], "somebody works again");
}
