//! What the ledger tells about itself: events for `tracing`, and a hook for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::key::Scope;

/// `semel_ledger_verdicts_total{outcome}`: one for every delivery.
pub const VERDICTS: &str = "semel_ledger_verdicts_total";
/// `semel_ledger_lookup_duration_seconds`: how long the store took to say whether a delivery is new.
pub const LOOKUP_DURATION: &str = "semel_ledger_lookup_duration_seconds";
/// `semel_ledger_cache_hits_total`: duplicates that were told without asking the store.
pub const CACHE_HITS: &str = "semel_ledger_cache_hits_total";
/// `semel_ledger_cache_misses_total`: deliveries for which the store was asked.
pub const CACHE_MISSES: &str = "semel_ledger_cache_misses_total";

/// What became of a delivery, as the label `outcome` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The effect happened.
    Applied,
    /// It had happened before.
    Replayed,
    /// Another delivery is at it.
    InProgress,
    /// The key belongs to another input.
    Collision,
    /// The effect happened, after an earlier delivery that did not come to an end.
    Recovered,
    /// Nobody knows whether it happened.
    Unknown,
    /// A newer delivery took over.
    Stale,
    /// The effect failed.
    Failed,
    /// The store failed, and the delivery was refused.
    Refused,
}

impl Outcome {
    /// All of them, for those who register metrics before the first event.
    pub const ALL: [Self; 9] = [
        Self::Applied,
        Self::Replayed,
        Self::InProgress,
        Self::Collision,
        Self::Recovered,
        Self::Unknown,
        Self::Stale,
        Self::Failed,
        Self::Refused,
    ];

    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Replayed => "replayed",
            Self::InProgress => "in_progress",
            Self::Collision => "collision",
            Self::Recovered => "recovered",
            Self::Unknown => "unknown",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Where the ledger's metrics go. All methods are called on the path of a delivery: they must not block.
pub trait Metrics: Send + Sync + 'static {
    /// [`VERDICTS`].
    fn verdict(&self, outcome: Outcome);
    /// [`LOOKUP_DURATION`].
    fn lookup(&self, took: Duration);
    /// [`CACHE_HITS`] or [`CACHE_MISSES`].
    fn cache(&self, hit: bool);
}

/// Metrics as plain counters, for those who export them by themselves, and for tests.
#[derive(Debug, Default)]
pub struct Counts {
    verdicts: [AtomicU64; Outcome::ALL.len()],
    hits: AtomicU64,
    misses: AtomicU64,
    lookups: AtomicU64,
    lookup_micros: AtomicU64,
}

impl Counts {
    /// How many deliveries came to this.
    pub fn verdicts(&self, outcome: Outcome) -> u64 {
        self.of(outcome).load(Ordering::Relaxed)
    }

    /// How many duplicates were told without asking the store.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// How often the store was asked.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// How many lookups there were, and how long they took together.
    pub fn lookups(&self) -> (u64, Duration) {
        let micros = self.lookup_micros.load(Ordering::Relaxed);
        (self.lookups.load(Ordering::Relaxed), Duration::from_micros(micros))
    }

    fn of(&self, outcome: Outcome) -> &AtomicU64 {
        let place = Outcome::ALL.iter().position(|one| *one == outcome).expect("all of them are listed");
        &self.verdicts[place]
    }
}

impl Metrics for Counts {
    fn verdict(&self, outcome: Outcome) {
        self.of(outcome).fetch_add(1, Ordering::Relaxed);
    }

    fn lookup(&self, took: Duration) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.lookup_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn cache(&self, hit: bool) {
        let count = if hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The event of a verdict. What needs a person is a warning; the rest is for those who look.
pub(crate) fn verdict(scope: &Scope, outcome: Outcome) {
    let (consumer, key, step) = (scope.consumer.as_str(), scope.key.as_str(), scope.step.as_str());
    let outcome = outcome.label();
    match outcome {
        "collision" | "unknown" | "refused" => {
            tracing::warn!(target: "semel_ledger", consumer, key, step, outcome, "ledger verdict");
        }
        "recovered" | "stale" | "failed" => {
            tracing::info!(target: "semel_ledger", consumer, key, step, outcome, "ledger verdict");
        }
        _ => tracing::debug!(target: "semel_ledger", consumer, key, step, outcome, "ledger verdict"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_metric_with_its_outcomes() {
        let page = include_str!("../../../docs/observability/metrics.md");
        for name in [VERDICTS, LOOKUP_DURATION, CACHE_HITS, CACHE_MISSES] {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name} is not on the page"));
            let outcomes =
                Outcome::ALL.iter().filter(|outcome| row.contains(&format!("`{}`", outcome.label())));
            assert_eq!(outcomes.count(), if name == VERDICTS { Outcome::ALL.len() } else { 0 }, "{row}");
        }
    }
}
