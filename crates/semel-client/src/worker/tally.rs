//! What a worker did, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Outcome;
use crate::outcome::Said;

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Deliveries that were acknowledged.
    pub done: u64,
    /// Deliveries that were deferred, those put back at the end among them.
    pub deferred: u64,
    /// Deliveries that failed, retryable or not.
    pub failed: u64,
    /// Deliveries that were no longer this worker's: it was too slow, or cut off. They are somebody else's now.
    pub lost: u64,
    /// Deliveries whose settle did not reach the server. They will be delivered again.
    pub unsettled: u64,
}

/// The same while it is still counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    done: AtomicU64,
    deferred: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    unsettled: AtomicU64,
}

impl Counts {
    pub(super) fn settled(&self, outcome: &Outcome) {
        add(match outcome.0 {
            Said::Done { .. } => &self.done,
            Said::Later { .. } => &self.deferred,
            Said::Failed { .. } => &self.failed,
        });
    }

    pub(super) fn lost(&self) {
        add(&self.lost);
    }

    pub(super) fn unsettled(&self) {
        add(&self.unsettled);
    }

    pub(super) fn tally(&self) -> Tally {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Tally {
            done: read(&self.done),
            deferred: read(&self.deferred),
            failed: read(&self.failed),
            lost: read(&self.lost),
            unsettled: read(&self.unsettled),
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
