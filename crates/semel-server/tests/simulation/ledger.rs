//! The effects of the workers: what their database holds, whatever becomes of them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use semel_core::ids::JobId;

/// The rows of a database in which workers record their effects, one row per effect, by job.
pub(crate) struct Ledger {
    /// Whether workers look before they leap. Without it every run of a job is an effect.
    used: bool,
    effects: Mutex<BTreeMap<JobId, Runs>>,
}

/// How often a job's handler ran, and how often it had its effect.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Runs {
    pub(crate) runs: u32,
    pub(crate) effects: u32,
}

impl Ledger {
    pub(crate) fn new(used: bool) -> Self {
        Self { used, effects: Mutex::default() }
    }

    /// Runs a job: its effect and the row that tells of it commit together, or the row is there already. The receipt is
    /// what the worker reports.
    pub(crate) fn run(&self, id: JobId) -> &'static str {
        let mut all = self.effects.lock().unwrap();
        let row = all.entry(id).or_default();
        row.runs += 1;
        if self.used && row.effects > 0 {
            return "replayed";
        }
        row.effects += 1;
        "applied"
    }

    /// What happened for a job.
    pub(crate) fn of(&self, id: JobId) -> Runs {
        self.effects.lock().unwrap().get(&id).copied().unwrap_or_default()
    }

    /// Runs that were not the first of their job.
    pub(crate) fn reruns(&self) -> u64 {
        self.effects.lock().unwrap().values().map(|row| u64::from(row.runs) - 1).sum()
    }

    /// Jobs that do not have exactly one effect although something ran for them.
    pub(crate) fn doubled(&self) -> Vec<JobId> {
        let all = self.effects.lock().unwrap();
        all.iter().filter(|(_, row)| row.effects != 1).map(|(id, _)| *id).collect()
    }
}
