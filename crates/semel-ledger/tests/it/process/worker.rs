//! A worker in a process of its own: this program again, as one ignored test. It says on its output where it is, and what
//! it came to; a line on its input lets it go on.

use std::path::Path;
use std::sync::Arc;

use semel_cluster::twin::{self, Twin};
use semel_ledger::Boundary;
use semel_ledger::handler::{Disposition, Receipt};
use semel_ledger::testkit::{Hook, hooked};
use tokio::sync::Semaphore;

use super::orders::{Desk, Orders};

/// The test that is the worker.
const WORKER: &str = "process::worker::worker";

#[test]
#[ignore = "a process of its own, which other tests start"]
fn worker() {
    let orders = twin::orders().expect("other tests start it, with orders");
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(orders));
}

async fn work(orders: Orders) {
    let desk = Desk::open(&orders).await;
    let go = on_a_word();
    let jobs = orders.jobs.iter().map(|(mode, key)| {
        let (desk, mode, key, token) = (desk.clone(), *mode, key.clone(), orders.token);
        let hook = stopping(orders.stop.map(|place| Boundary::ALL[place]), go.clone());
        tokio::spawn(async move {
            let told = hooked(hook.clone(), desk.deliver(mode, &key, token)).await;
            hook(Boundary::BeforeAck).await;
            twin::say(format_args!("{mode:?} {}", summary(&told)));
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.unwrap();
    }
}

/// Opens when this process is let on.
fn on_a_word() -> Arc<Semaphore> {
    let go = Arc::new(Semaphore::new(0));
    let opened = go.clone();
    twin::when_let_on(move || opened.close());
    go
}

/// Says that the boundary is reached, the first time, and waits there.
fn stopping(stop: Option<Boundary>, go: Arc<Semaphore>) -> Hook {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    Arc::new(move |here| {
        let wait = Some(here) == stop && first.swap(false, std::sync::atomic::Ordering::SeqCst);
        let go = go.clone();
        Box::pin(async move {
            if wait {
                twin::say("reached");
                // It is closed, never released.
                go.acquire().await.unwrap_err();
            }
        })
    })
}

/// A disposition in a word.
pub(super) fn summary(told: &Disposition) -> String {
    match told {
        Disposition::Ack { receipt: Receipt::Applied, .. } => "applied".to_owned(),
        Disposition::Ack { receipt: Receipt::Replayed, .. } => "replayed".to_owned(),
        Disposition::Ack { receipt: Receipt::None, .. } => "none".to_owned(),
        Disposition::Defer { .. } => "deferred".to_owned(),
        Disposition::Fail { error, .. } => format!("failed: {error}"),
    }
}

/// Starts a worker.
pub(super) fn start(orders: &Orders) -> Twin {
    Twin::start(WORKER, &text(orders)).unwrap()
}

/// A worker whose wall clock is off by this much, as faketime writes it.
pub(super) fn with_clock(orders: &Orders, library: &Path, by: &str) -> Twin {
    let mut command = Twin::command(WORKER, &text(orders)).unwrap();
    command.env("LD_PRELOAD", library).env("FAKETIME", by);
    // The monotonic clock is the machine's own: only the wall clock can be set.
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    Twin::run(&mut command).unwrap()
}

/// Starts a worker, and waits until it has come to its boundary with each of its jobs.
pub(super) fn start_and_stop(orders: &Orders) -> Twin {
    let worker = start(orders);
    wait_until_reached(&worker, orders.jobs.len());
    worker
}

/// Waits until so many of its jobs are at the boundary.
pub(super) fn wait_until_reached(worker: &Twin, jobs: usize) {
    for _ in 0..jobs {
        assert_eq!(worker.word().unwrap(), "reached");
    }
}

fn text(orders: &Orders) -> String {
    serde_json::to_string(orders).unwrap()
}
