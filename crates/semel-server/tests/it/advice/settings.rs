//! Settings that do not cover each other.

use serde_json::json;

use super::{codes, finding};
use crate::kit::{World, scenarios};

scenarios!(the_window_proof_is_told_of_every_queue);

async fn the_window_proof_is_told_of_every_queue(world: &World) {
    world.queue("fine", json!({})).await;
    assert_eq!(codes(world).await, []);
    world.queue("short", json!({ "window": 60, "retention": { "dead": 3600 } })).await;
    world.queue("ledger", json!({ "ledgerTtl": 60, "maxAttempts": 1 })).await;
    world.queue("large", json!({ "payloadLimit": 8 * 1024 * 1024 })).await;
    let short = finding(world, "short", "window_short", &["Set window to at least 3600 seconds"]).await;
    assert_eq!(short["severity"], "warning");
    assert_eq!(short["evidence"], json!({ "setting": "window", "has": 60, "needs": 3600 }));
    finding(world, "ledger", "ledger_ttl_short", &["Set ledgerTtl to at least"]).await;
    finding(world, "large", "payload_limit", &["limits.body", "payloadLimit"]).await;
    assert_eq!(codes(world).await.len(), 3, "and nothing else");
    // Doing as told mends it.
    world
        .client
        .put("/v1/queues/short", json!({ "window": 3600, "retention": { "dead": 3600 } }))
        .await
        .expect(200);
    world.client.delete("/v1/queues/ledger").await;
    world.client.delete("/v1/queues/large").await;
    assert_eq!(codes(world).await, []);
}
