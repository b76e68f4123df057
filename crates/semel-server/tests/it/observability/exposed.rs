//! What `/metrics` exposes: the names that were promised, with their types and labels, and nothing that the page does not list.

use std::collections::BTreeSet;

use http::Method;

use super::busy::a_bit_of_everything;
use super::collector::{Collector, Mood, world_with};
use super::page::{exposed, listed};
use super::promtool;
use crate::kit::{Backend, World, eventually, usual_options, within};

/// The names that dashboards and alerts elsewhere are built on. They do not change.
const PROMISED: [(&str, &str, &[&str]); 15] = [
    ("semel_publishes_total", "counter", &["queue", "outcome"]),
    ("semel_job_duplicates_total", "counter", &["queue", "door"]),
    ("semel_deliveries_total", "counter", &["queue", "outcome"]),
    ("semel_delivery_duration_seconds", "histogram", &["queue"]),
    ("semel_retry_delay_seconds", "histogram", &[]),
    ("semel_queue_depth", "gauge", &["queue", "status"]),
    ("semel_dead_letters", "gauge", &["queue"]),
    ("semel_oldest_ready_age_seconds", "gauge", &["queue"]),
    ("semel_lease_expirations_total", "counter", &["queue"]),
    ("semel_holds_total", "counter", &["queue"]),
    ("semel_breaker_state", "gauge", &["queue"]),
    ("semel_effects_total", "counter", &["queue", "outcome"]),
    ("semel_commit_duration_seconds", "histogram", &[]),
    ("semel_commit_batch_size", "histogram", &[]),
    ("semel_keys", "gauge", &[]),
];

/// Labels whose values are bounded. Any other would be a way to burst a Prometheus.
const LABELS: [&str; 4] = ["door", "outcome", "queue", "status"];

async fn scrape(world: &World) -> String {
    let answer = world.client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_promised_names_are_there_and_the_page_lists_all_there_are() {
    let collector = Collector::start(Mood::Content).await;
    let world = world_with(Backend::Embedded, collector.export()).await;
    a_bit_of_everything(&world).await;
    let exported = async || Some(scrape(&world).await).filter(|text| text.contains("semel_spans_total{"));
    let text = within(eventually(exported)).await;
    tokio::task::block_in_place(|| promtool::passes(&["check", "metrics"], &text));
    let found = exposed(&text);
    for (name, kind, labels) in PROMISED {
        let family = found.get(name).unwrap_or_else(|| panic!("{name} is missing in {text}"));
        assert_eq!(family.kind, kind, "{name}");
        assert_eq!(family.labels, labels.iter().map(ToString::to_string).collect(), "{name}");
    }
    let page = listed();
    let names =
        |families: &std::collections::BTreeMap<String, _>| families.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&page), names(&found), "docs/observability/metrics.md lists exactly what is exposed");
    for (name, family) in &found {
        assert!(family.labels.iter().all(|label| LABELS.contains(&label.as_str())), "{name}: {family:?}");
        assert_eq!(page[name].kind, family.kind, "{name}");
        // What has not happened has no series; what has, has the labels that the page says.
        assert!(family.labels.is_empty() || family.labels == page[name].labels, "{name}: {family:?}");
    }
    assert!(
        text.contains("semel_window_shortfalls{queue=\"q\"} 1"),
        "a window of a minute is too short: {text}"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_openmetrics_gets_it() {
    let world = World::start(Backend::Memory).await;
    world.queue("q", serde_json::json!({})).await;
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let answer = world.client.send(Method::GET, "/metrics", &[("accept", accept)], None).await;
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.text.ends_with("# EOF\n"), "{}", answer.text);
    let classic = world.client.get("/metrics").await;
    assert_eq!(classic.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    world.end().await;
}

/// PostgreSQL is asked for what it knows anyway, and learns of new rows a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_size_are_estimated_on_postgresql() {
    let world = World::shaped(Backend::Postgres, usual_options).await;
    world.queue("q", serde_json::json!({})).await;
    for key in ["a", "b", "c"] {
        world.publish("q", serde_json::json!({ "payload": 1, "idempotencyKey": key })).await;
    }
    world.home.database().sql("ANALYZE semel.key").unwrap();
    let counted = async || scrape(&world).await.contains("semel_keys 3\n").then_some(());
    within(eventually(counted)).await;
    let text = scrape(&world).await;
    let size = text.lines().find_map(|line| line.strip_prefix("semel_store_size_bytes ")).unwrap();
    assert!(size.parse::<u64>().unwrap() > 8192, "{size}");
    assert!(!text.contains("semel_store_free_bytes"), "the disk of a database cannot be seen: {text}");
    world.end().await;
}
