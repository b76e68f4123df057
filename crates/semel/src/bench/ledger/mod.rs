//! `semel bench ledger`: what the ledger costs, against the same work without it, on servers of its own.
//!
//! PostgreSQL and Redis are started for the occasion and removed. What is compared is measured in alternating slices, over
//! the same driver, on the same connections.

mod crew;
mod effect;
mod prune;
mod relay;
mod replay;
mod rounds;
mod seen;
mod targets;

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use semel_store::{Clock, SystemClock};
use serde::Serialize;

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
    /// Effects of each kind.
    pub effects: u64,
    /// Round trips to PostgreSQL; the cache is asked a hundred times as often.
    pub trips: u64,
    /// Keys that are marked, of each kind.
    pub marks: u64,
    /// Expired rows that are pruned.
    pub rows: u64,
    /// Seconds of claims without a prune, before it and after it.
    pub calm_seconds: u64,
    /// Rows that the relay carries, and jobs that are published without it.
    pub relayed: u64,
}

impl Plan {
    /// The plan that the table is about.
    pub(crate) fn full() -> Self {
        Self {
            runs: 3,
            effects: 20_000,
            trips: 20_000,
            marks: 400_000,
            rows: FULL_ROWS,
            calm_seconds: 15,
            relayed: 100_000,
        }
    }

    /// A plan that takes seconds and proves nothing but that everything works.
    pub(crate) fn quick() -> Self {
        Self { runs: 1, effects: 400, trips: 200, marks: 2000, rows: 10_000, calm_seconds: 1, relayed: 3000 }
    }

    /// Disk space the run needs, generously: each round has a database of its own, and their log is kept for a while.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let rows = self.rows + 2 * (self.relayed + self.effects);
        (512 << 20) + u64::from(self.runs) * rows * 2000
    }

    fn about(&self) -> Vec<String> {
        let runs = if self.runs == 1 { "1 run".into() } else { format!("median of {} runs", self.runs) };
        let [effects, marks, rows, relayed] =
            [self.effects, self.marks, self.rows, self.relayed].map(text::count);
        vec![
            format!("PostgreSQL with fsync on, Redis in memory, {} workers, {runs}", crew::WORKERS),
            format!(
                "{effects} effects, {marks} marks, {rows} expired rows, {relayed} rows relayed; all share the cores"
            ),
        ]
    }
}

/// The number of expired rows that the bar is about.
const FULL_ROWS: u64 = 1_000_000;

/// Runs the benchmark below `dir` and leaves nothing there. PostgreSQL and Redis live in the system's directories for
/// temporary files.
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
    let notes = notes(&machine, plan);
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
        bench: "ledger",
        about: plan.about(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        machine,
        notes,
        measures: rounds.measures(),
        figures: rounds.figures(),
    })
}

fn notes(machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut notes = super::machine_notes(machine);
    if plan.rows < FULL_ROWS {
        notes.push(format!("fewer expired rows than the {} that the bar is about", text::count(FULL_ROWS)));
    }
    notes
}

/// For `map_err`: what could not be done, and why.
fn failed<E: Display>(what: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure::Broken(format!("could not {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_prune_is_said_to_be_one() {
        let machine = Machine::describe(Path::new("/"));
        let said = |plan: &Plan| notes(&machine, plan).join("; ");
        assert!(said(&Plan::quick()).contains("fewer expired rows than the 1,000,000"));
        assert!(!said(&Plan::full()).contains("fewer"));
    }
}
