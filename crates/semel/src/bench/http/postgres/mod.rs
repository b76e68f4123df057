//! `semel bench http --store postgres`: the server on PostgreSQL, against hand-written SQL on the same PostgreSQL.
//!
//! The benchmark starts a cluster of its own with the settings a small production server would have, and removes it.

mod keys;
pub(in crate::bench) mod limit;
mod nodes;
mod rounds;
mod spent;
mod targets;
mod turns;

use std::path::Path;
use std::time::Instant;

use semel_store::{Clock, SystemClock};
use serde::Serialize;

use super::super::machine::{self, Machine};
use super::super::report::Report;
use super::load;
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
    /// Jobs from publish to completion.
    pub flow: u64,
    /// Keys that are present when the full store is measured.
    pub keys: u64,
    /// Seconds for which an idle node is watched.
    pub idle_seconds: u64,
}

impl Plan {
    /// The plan that the table is about. A slice takes more than a second: nodes need as long to learn from each other that they
    /// are busy, and what happens in less is as much the machine's mood as the server's.
    pub(crate) fn full() -> Self {
        Self { runs: 3, singles: 60_000, batched: 60_000, flow: 30_000, keys: FULL_KEYS, idle_seconds: 20 }
    }

    /// A plan that takes seconds and proves nothing but that everything works.
    pub(crate) fn quick() -> Self {
        Self { runs: 1, singles: 1000, batched: 2000, flow: 2000, keys: 10_000, idle_seconds: 2 }
    }

    /// Disk space the run needs, generously: a key and its job are some 400 bytes with their indexes. The jobs of a round go with
    /// its database, but the log keeps what all rounds wrote, up to its limit.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let jobs = 16 * (self.singles + self.batched + self.flow);
        let log = (u64::from(self.runs) * jobs * 2000).min(6 << 30);
        (512 << 20) + log + (self.keys + jobs) * 1000
    }

    fn about(&self) -> Vec<String> {
        let runs = if self.runs == 1 { "1 run".into() } else { format!("median of {} runs", self.runs) };
        vec![
            format!(
                "PostgreSQL with fsync on, {} connections, {}-byte payloads, a key each, {runs}",
                load::CONNECTIONS,
                load::PAYLOAD_BYTES
            ),
            format!(
                "{} single, {} batched, {} end-to-end jobs per slice, {} keys; all share the cores",
                text::count(self.singles),
                text::count(self.batched),
                text::count(self.flow),
                text::count(self.keys)
            ),
        ]
    }
}

/// The number of keys that the bar is about.
const FULL_KEYS: u64 = 10_000_000;

/// Runs the benchmark and leaves nothing behind. The cluster lives in the system's directory for temporary files; `dir`
/// only says which machine this is.
pub(crate) fn run(
    plan: &Plan,
    dir: &Path,
    command: String,
    progress: &mut Progress,
) -> Result<Report, Failure> {
    let start = Instant::now();
    let started_at = SystemClock::new().now().millis();
    machine::require_space(dir, plan.disk_bytes())?;
    let machine = Machine::describe(dir);
    let mut notes = super::super::machine_notes(&machine);
    if plan.keys < FULL_KEYS {
        notes.push(format!("fewer keys than the {} that the bar is about", text::count(FULL_KEYS)));
    }
    notes.iter().for_each(|note| progress.note(&format!("note: {note}")));
    let rounds = rounds::run(plan, progress)?;
    progress.finish();
    Ok(Report {
        format: super::super::FORMAT,
        semel: env!("CARGO_PKG_VERSION"),
        commit: machine::commit(),
        started_at,
        took_seconds: start.elapsed().as_secs_f64(),
        command,
        bench: "postgres",
        about: plan.about(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        machine,
        notes,
        measures: rounds.measures(),
        figures: rounds.figures(),
    })
}
