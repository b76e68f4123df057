//! Advice: each planted problem is found, with the setting that mends it, and a healthy system is left alone.

mod access;
mod deliveries;
mod dry_run;
mod healthy;
mod keys;
mod settings;
mod standstill;
mod store;

use serde_json::{Value, json};

use crate::kit::{World, eventually, within};

/// What the server advises. Whether its machine's disk is quick is not what these scenarios are about.
async fn advice(world: &World) -> Vec<Value> {
    let answer = world.client.get("/v1/advice").await.expect(200);
    let mut findings = answer["findings"].as_array().unwrap().clone();
    findings.retain(|finding| finding["code"] != "commits_slow");
    findings
}

/// What is found, by queue and code.
async fn codes(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        advice(world).await.iter().map(|finding| (text(&finding["queue"]), text(&finding["code"]))).collect();
    found.sort();
    found
}

/// Waits until this is found.
async fn until_told_of(world: &World, queue: &str, code: &str) {
    let wanted = (queue.to_owned(), code.to_owned());
    within(eventually(async || codes(world).await.contains(&wanted).then_some(()))).await;
}

/// The one finding of this code. It must be complete, and its remedy must name these words.
async fn finding(world: &World, queue: &str, code: &str, remedy: &[&str]) -> Value {
    let all = advice(world).await;
    let mut found: Vec<_> =
        all.iter().filter(|finding| finding["code"] == code && finding["queue"] == queue).collect();
    assert_eq!(found.len(), 1, "{code} in {queue}: {all:#?}");
    let finding = found.remove(0).clone();
    for member in ["summary", "meaning", "remedy", "since"] {
        assert!(finding[member].as_str().is_some_and(|words| !words.is_empty()), "{member}: {finding:#}");
    }
    assert!(["info", "warning", "critical"].contains(&finding["severity"].as_str().unwrap()), "{finding:#}");
    assert!(!finding["evidence"].as_object().unwrap().is_empty(), "{finding:#}");
    let words = finding["remedy"].as_str().unwrap();
    for wanted in remedy {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
    finding
}

/// Publishes many jobs at once: each a key and a payload.
async fn publish(world: &World, queue: &str, jobs: impl IntoIterator<Item = (String, Value)>) {
    let jobs: Vec<_> =
        jobs.into_iter().map(|(key, payload)| json!({ "idempotencyKey": key, "payload": payload })).collect();
    world.client.post(&format!("/v1/queues/{queue}/jobs/batch"), json!({ "jobs": jobs })).await.expect(200);
}

/// Settles deliveries all alike.
async fn settle(world: &World, deliveries: &[Value], with: &Value) {
    if deliveries.is_empty() {
        return;
    }
    let item = |delivery: &Value| {
        let mut item = with.clone();
        item["id"] = delivery["id"].clone();
        item["lease"] = delivery["lease"].clone();
        item
    };
    let items: Vec<_> = deliveries.iter().map(item).collect();
    let answer = world.client.post("/v1/settle", json!({ "items": items })).await.expect(200);
    let refused: Vec<_> =
        answer["results"].as_array().unwrap().iter().filter(|result| result.get("code").is_some()).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
