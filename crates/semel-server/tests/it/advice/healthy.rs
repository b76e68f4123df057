//! A healthy system, busy, with retries, redeliveries and duplicates: there is nothing to say.

use serde_json::{Value, json};

use super::{advice, publish, settle};
use crate::kit::{World, scenarios, secs};

scenarios!(a_healthy_busy_system_is_left_alone);

/// The keys and payloads of one minute: natural keys, ids from elsewhere, one key per work.
fn work(queue: &str, minute: u64) -> Vec<(String, Value)> {
    let one = |n: u64| {
        let id = (minute * 20 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match queue {
            "orders" => (format!("order-{}", minute * 20 + n), json!({ "order": minute * 20 + n })),
            "events" => {
                (format!("{id:016x}-4a1b-8c2d-{:012x}", id >> 16), json!({ "event": id, "kind": n % 3 }))
            }
            // The same payload for every one of them: the key alone says what it is about.
            "mails" => (format!("welcome-user-{}", minute * 20 + n), json!({ "template": "welcome" })),
            _ => (format!("report-2026-11-{:02}-{n}", minute + 1), json!({ "report": n, "day": minute })),
        }
    };
    (0..20).map(one).collect()
}

const QUEUES: [&str; 4] = ["orders", "events", "mails", "reports"];

async fn a_healthy_busy_system_is_left_alone(world: &World) {
    let fixed = json!({ "strategy": "fixed", "base": 5, "jitter": "none" });
    for queue in QUEUES {
        world.queue(queue, json!({ "retry": fixed })).await;
    }
    world.queue("idle", json!({ "breaker": { "failures": 5, "cooldown": 30 } })).await;
    world
        .client
        .put("/v1/schedules/tick", json!({ "queue": "idle", "cron": "* * * * *", "payload": {} }))
        .await
        .expect(201);
    for minute in 0..8 {
        for queue in QUEUES {
            let work = work(queue, minute);
            // Some publishers did not hear the first answer.
            publish(world, queue, work.iter().chain(work.iter().take(5)).cloned()).await;
            let leased = world.lease(queue, 30).await;
            // A tenth fails and is tried again, now and then a worker asks for time, and one dies.
            settle(world, &leased[..2], &json!({ "action": "nack" })).await;
            settle(world, &leased[2..3], &json!({ "action": "defer", "retryAfter": 1, "scope": "job" }))
                .await;
            let done = if minute == 3 { 4 } else { 3 };
            settle(world, &leased[done..], &json!({ "action": "ack", "effect": { "outcome": "applied" } }))
                .await;
        }
        let ticks = world.lease("idle", 5).await;
        settle(world, &ticks, &json!({ "action": "ack" })).await;
        world.advance(secs(61));
        let found = advice(world).await;
        assert!(found.is_empty(), "in minute {minute}: {found:#?}");
    }
}
