//! What a node says that cannot reach the database: 503, in time, to everything that needs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::{DEADLINE, Stage};
use crate::kit::plan::Item;

/// Numbers of jobs apart from those of the traffic.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000);

type Ask = fn(&Stage, usize) -> (u16, String);

const ASKED: [(&str, Ask); 4] =
    [("readiness", readiness), ("counters", counters), ("a publish", publish), ("a lease", lease)];

/// Asks these nodes for everything at once. All of it must be refused in time.
pub(crate) fn assert_in_time(stage: &Stage, nodes: &[usize]) {
    thread::scope(|scope| {
        for (&node, (what, ask)) in nodes.iter().flat_map(|node| ASKED.map(|asked| (node, asked))) {
            scope.spawn(move || {
                let began = Instant::now();
                let (status, code) = ask(stage, node);
                let took = began.elapsed();
                println!("node {}, {what}: {status} {code} after {} ms", node + 1, took.as_millis());
                assert_eq!(status, 503, "{what}: {code}");
                assert!(took < DEADLINE, "{what}: {took:?}");
            });
        }
    });
}

fn readiness(stage: &Stage, node: usize) -> (u16, String) {
    let answer = stage.client_of(node).get("/readyz").unwrap();
    (answer.status, answer.code())
}

fn counters(stage: &Stage, node: usize) -> (u16, String) {
    let answer = stage.client_of(node).get("/v1/stats").unwrap();
    (answer.status, answer.code())
}

fn publish(stage: &Stage, node: usize) -> (u16, String) {
    let item = Item::keyed_in("plain", NEXT.fetch_add(1, Ordering::Relaxed));
    let published = stage.publish(&mut stage.client_of(node), item);
    published.map_or_else(|problem| problem, |published| (201, published.id))
}

/// What a lease of unknown fate has taken runs out; its attempt is counted as one of a worker that said nothing.
fn lease(stage: &Stage, node: usize) -> (u16, String) {
    let answer =
        stage.client_of(node).post("/v1/queues/plain/lease", r#"{"max": 1, "leaseSeconds": 1}"#).unwrap();
    (answer.status, answer.code())
}
