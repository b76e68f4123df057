//! `semel bench http`: what the server does over real sockets, against the same server without a store.
//!
//! Client, worker and server share the machine, as they would on a small one. The server is a process of its own.

mod client;
mod flows;
pub(super) mod load;
mod many;
mod no_store;
pub(crate) mod postgres;
mod rounds;
pub(super) mod server;
mod targets;
mod worker;

use std::path::Path;
use std::time::Instant;

use semel_store::{Clock, SystemClock};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::server::be_server;

use super::machine::{self, Machine};
use super::report::Report;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text;

/// How much a run does.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Plan {
    /// How often everything is measured; the median counts.
    pub runs: u32,
    /// Single publishes per slice.
    pub singles: u64,
    /// Batch-published jobs per slice.
    pub batched: u64,
    /// Jobs from publish to completion, per flow.
    pub flow: u64,
    /// Seconds of the steady trickle.
    pub steady_seconds: u64,
    /// Push queues at once.
    pub queues: u64,
    /// Publishes before memory is looked at.
    pub loaded: u64,
}

impl Plan {
    /// The plan that the table is about.
    pub(crate) fn full() -> Self {
        Self {
            runs: 3,
            singles: 60_000,
            batched: 200_000,
            flow: 30_000,
            steady_seconds: 10,
            queues: 1000,
            loaded: 400_000,
        }
    }

    /// A plan that takes seconds and proves nothing but that everything works.
    pub(crate) fn quick() -> Self {
        Self {
            runs: 1,
            singles: 3000,
            batched: 5000,
            flow: 1500,
            steady_seconds: 1,
            queues: 20,
            loaded: 5000,
        }
    }

    /// Disk space the run needs, generously: the store of each round, and its logs.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let jobs = 2 * (self.singles + self.batched + self.flow) + self.loaded;
        (256 << 20) + u64::from(self.runs) * jobs * 1500
    }

    fn about(&self) -> Vec<String> {
        let runs = if self.runs == 1 { "1 run".into() } else { format!("median of {} runs", self.runs) };
        vec![
            format!(
                "{} connections, {}-byte payloads, a key each, every answer durable, {runs}",
                load::CONNECTIONS,
                load::PAYLOAD_BYTES
            ),
            format!(
                "{} single, {} batched, {} end-to-end jobs per slice; client, worker and server share the cores",
                text::count(self.singles),
                text::count(self.batched),
                text::count(self.flow)
            ),
        ]
    }
}

/// The runtime of clients and of workers: one thread each, so that what they spend is not spread over both cores.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::io("start a runtime"))
}

/// Runs the benchmark below `dir` and leaves nothing there.
pub(crate) fn run(
    plan: &Plan,
    dir: &Path,
    command: String,
    progress: &mut Progress,
) -> Result<Report, Failure> {
    let start = Instant::now();
    let started_at = SystemClock::new().now().millis();
    let scratch = tempfile::Builder::new()
        .prefix("semel-bench-")
        .tempdir_in(dir)
        .map_err(Failure::io(format!("make a directory in {}", dir.display())))?;
    machine::require_space(scratch.path(), plan.disk_bytes())?;
    let machine = Machine::describe(scratch.path());
    let notes = super::machine_notes(&machine);
    notes.iter().for_each(|note| progress.note(&format!("note: {note}")));
    let rounds = rounds::run(plan, scratch.path(), progress)?;
    progress.finish();
    Ok(Report {
        format: super::FORMAT,
        semel: env!("CARGO_PKG_VERSION"),
        commit: machine::commit(),
        started_at,
        took_seconds: start.elapsed().as_secs_f64(),
        command,
        bench: "http",
        about: plan.about(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        machine,
        notes,
        measures: rounds.measures(),
        figures: rounds.figures(),
    })
}
