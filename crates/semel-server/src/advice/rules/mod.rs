//! The rules: from what is known of a queue to what should be said about it. Pure functions of what they are shown.

mod deliveries;
mod keys;
mod settings;
mod standstill;
pub(super) mod store;

use semel_core::records::QueueRecord;
use semel_core::time::Timestamp;
use semel_store::QueueStats;

use super::finding::{Code, Finding, Severity};
use super::lint::Reuse;
use super::watch::{QueueWatch, Standing};
use crate::news::Times;

/// What is known of one queue.
pub(super) struct Look<'a> {
    /// Its settings and how its gate stands.
    pub(super) record: &'a QueueRecord,
    /// How many jobs stand where.
    pub(super) stats: &'a QueueStats,
    /// How long handlers take.
    pub(super) times: Option<Times>,
    /// What this node has seen go through it.
    pub(super) seen: &'a QueueWatch,
    /// What the last looks at it showed.
    pub(super) standing: Standing,
    /// Largest body of a single publish, in bytes.
    pub(super) body_limit: u64,
    /// The store's time.
    pub(super) now: Timestamp,
}

impl Look<'_> {
    /// A finding about this queue.
    fn found(&self, code: Code, severity: Severity, summary: impl Into<String>) -> Finding {
        Finding::of(&self.record.name, code, severity, summary)
    }
}

/// Everything there is to say about a queue.
pub(super) fn judge(look: &Look<'_>) -> Vec<Finding> {
    [settings::judge(look), keys::judge(look), deliveries::judge(look), standstill::judge(look)].concat()
}

/// Everything there is to say about queues that share keys.
pub(super) fn judge_reuse(reuse: &Reuse, now: Timestamp) -> Vec<Finding> {
    keys::reused(reuse, now)
}

/// A share in percent, rounded down; of nothing it is nothing.
fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}
