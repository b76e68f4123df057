//! Who is told what.

use std::path::Path;

use semel_server::service::{AuthMode, Options};
use serde_json::{Value, json};

use super::publish;
use crate::kit::{Client, World, scenarios};

scenarios!(with guarded: a_key_is_told_of_its_queues_only);

fn guarded(_: &Path) -> Options {
    Options { auth: AuthMode::Keys, ..Options::default() }
}

async fn told(client: &Client, path: &str) -> Vec<(Value, Value)> {
    let answer = client.get(path).await.expect(200);
    let findings = answer["findings"].as_array().unwrap().iter();
    let queues = findings.filter(|finding| finding["code"] != "commits_slow");
    queues.map(|finding| (finding["queue"].clone(), finding["code"].clone())).collect()
}

async fn a_key_is_told_of_its_queues_only(world: &World) {
    for queue in ["mine", "theirs"] {
        world.queue(queue, json!({ "window": 60 })).await;
        publish(world, queue, (0..5).map(|n| (format!("order-{n}"), json!({ "order": n })))).await;
    }
    let made = json!({ "scopes": ["read"], "queues": ["mine"] });
    let made = world.client.post("/v1/api-keys", made).await.expect(201);
    let holder = world.client.with_secret(made["secret"].as_str());
    let short = |queue: &str| (json!(queue), json!("window_short"));
    assert_eq!(
        told(&holder, "/v1/advice").await,
        [short("mine")],
        "keys in the other queue are not for them"
    );
    let all = told(&world.client, "/v1/advice").await;
    assert_eq!(all, [short("mine"), short("theirs"), (json!("mine"), json!("keys_reused"))]);
    let one = told(&world.client, "/v1/advice?queue=theirs").await;
    assert_eq!(one, [short("theirs"), (json!("mine"), json!("keys_reused"))]);
    holder.get("/v1/advice?queue=theirs").await.problem(403, "forbidden");
    world.client.get("/v1/advice?queue=none").await.problem(404, "queue_not_found");
    world.client.get("/v1/advice?queue=a%20b").await.problem(400, "invalid");
    world.client.get("/v1/advice?colour=red").await.problem(400, "invalid");
    holder.post("/v1/queues/theirs/dedupe-dry-run", json!({})).await.problem(403, "forbidden");
    world.client.post("/v1/queues/none/dedupe-dry-run", json!({})).await.problem(404, "queue_not_found");
}
