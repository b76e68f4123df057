//! A restart with a large backlog (fault 45): a bounded start, and memory that does not grow with it.

use std::time::Duration;

use semel_proof::settings;
use serde_json::json;

use crate::kit::arena::Arena;

/// Jobs of one batch.
const BATCH: u64 = 1000;
/// A restart may take this long, however much is waiting.
const RESTART_MAX: Duration = Duration::from_secs(5);
/// What a backlog may add to the memory of a server that has just started: windows, caches and filters, in KiB.
const MORE_MEMORY_MAX: u64 = 96 * 1024;

#[test]
fn heavy_server_restarted_with_a_backlog() {
    let jobs = settings::number("SEMEL_BACKLOG_JOBS", if settings::is_soak() { 10_000_000 } else { 50_000 });
    let arena = Arena::new(45);
    arena.open().kill();
    let server = arena.launch.start();
    let empty = server.memory("VmRSS");
    for batch in 0..jobs / BATCH {
        publish(&arena, batch * BATCH);
    }
    let full = server.memory("VmRSS");
    server.kill();
    let server = arena.launch.start();
    let restarted = server.memory("VmRSS");
    println!(
        "{jobs} jobs waiting: restarted in {} ms; memory {empty} KiB when empty, {full} KiB while they were published, \
         {restarted} KiB after the restart",
        server.took.as_millis()
    );
    assert!(server.took < RESTART_MAX, "{:?} to restart with {jobs} jobs", server.took);
    assert!(restarted < empty + MORE_MEMORY_MAX, "{restarted} KiB with {jobs} jobs, {empty} KiB with none");
    let mut client = arena.client();
    let stats = client.get("/v1/stats").unwrap().json();
    assert_eq!(stats["queues"]["plain"]["pending"], jobs, "{stats}");
    let leased = client.post("/v1/queues/plain/lease", r#"{"max": 1}"#).unwrap().json();
    assert_eq!(leased["jobs"][0]["payload"], 0, "the oldest goes out first: {leased}");
    assert_eq!(server.stop().status.code(), Some(0));
}

fn publish(arena: &Arena, first: u64) {
    let jobs: Vec<_> =
        (first..first + BATCH).map(|n| json!({"payload": n, "idempotencyKey": format!("b{n}")})).collect();
    let answer =
        arena.client().post("/v1/queues/plain/jobs/batch", &json!({ "jobs": jobs }).to_string()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results = answer.json()["results"].as_array().cloned().unwrap_or_default();
    assert!(results.iter().all(|item| item["deduplicated"] == false), "{results:?}");
}
