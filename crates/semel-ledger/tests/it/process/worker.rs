//! A worker in a process of its own: this program again, as one ignored test. It says on its output where it is, and what
//! it came to; a line on its input lets it go on.

use std::io::BufRead;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use semel_ledger::Boundary;
use semel_ledger::handler::{Disposition, Receipt};
use semel_ledger::testkit::{Hook, hooked};
use tokio::sync::Semaphore;

use super::orders::{Desk, Orders};

const ORDERS: &str = "SEMEL_LEDGER_WORKER";

/// What its lines begin with, so that they can be told from those of the test harness.
const MARK: &str = "worker:";

#[test]
#[ignore = "a process of its own, which other tests start"]
fn worker() {
    let orders = std::env::var(ORDERS).expect("other tests start it, with orders");
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
            println!("{MARK} {mode:?} {}", summary(&told));
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.unwrap();
    }
}

/// Opens when a line comes in. If the parent is gone, so is this process.
fn on_a_word() -> Arc<Semaphore> {
    let go = Arc::new(Semaphore::new(0));
    let opened = go.clone();
    std::thread::spawn(move || match std::io::stdin().lock().lines().next() {
        Some(Ok(_)) => opened.close(),
        _ => std::process::exit(1),
    });
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
                println!("{MARK} reached");
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

/// The parent's end of a worker. It is killed when it is dropped.
pub(super) struct Worker {
    process: Child,
    input: ChildStdin,
    output: std::io::Lines<std::io::BufReader<ChildStdout>>,
}

impl Worker {
    pub(super) fn start(orders: &Orders) -> Self {
        Self::launch(orders, |_| {})
    }

    /// A worker whose wall clock is off by this much, as faketime writes it.
    pub(super) fn with_clock(orders: &Orders, library: &Path, by: &str) -> Self {
        Self::launch(orders, |command| {
            command.env("LD_PRELOAD", library).env("FAKETIME", by);
            // The monotonic clock is the machine's own: only the wall clock can be set.
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        })
    }

    fn launch(orders: &Orders, with: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process::worker::worker", "--exact", "--ignored", "--nocapture"]);
        command.env(ORDERS, serde_json::to_string(orders).unwrap());
        with(&mut command);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: std::io::BufReader::new(output).lines() }
    }

    /// The next thing it says.
    pub(super) fn line(&mut self) -> String {
        let mark = |line: std::io::Result<String>| {
            line.unwrap().split_once(MARK).map(|(_, said)| said.trim().to_owned())
        };
        self.output.by_ref().find_map(mark).expect("the worker ended without a word")
    }

    /// Waits until so many of its jobs are at the boundary.
    pub(super) fn wait_until_reached(&mut self, jobs: usize) {
        for _ in 0..jobs {
            assert_eq!(self.line(), "reached");
        }
    }

    pub(super) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Lets it go on from the boundary.
    pub(super) fn go_on(&mut self) {
        use std::io::Write;
        self.input.write_all(b"go\n").unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
