//! What the ledger says about a delivery.

use crate::time::{Moment, Until};

/// What became of a delivery. Never a bare `bool`: a duplicate gets the first run's result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a verdict says whether the job is done; acknowledge, defer or fail the delivery by it"]
pub enum Verdict<T> {
    /// The effect happened now.
    Applied(T),
    /// It had happened before; this is the result of that run.
    Replayed(T),
    /// Another delivery is at it. Defer this one; it has not failed.
    InProgress {
        /// When that delivery's lease ends, unless it is renewed.
        until: Until,
    },
    /// The effect may or may not have happened, and trying again could make it happen twice.
    ///
    /// After an intent this is for a person, or for a `reconcile` hook. In at-most-once mode it is what a crash leaves, and
    /// what was chosen.
    OutcomeUnknown {
        /// When the effect was first attempted.
        since: Moment,
    },
}

impl<T> Verdict<T> {
    /// The result, if there is one.
    pub fn result(self) -> Option<T> {
        match self {
            Self::Applied(result) | Self::Replayed(result) => Some(result),
            Self::InProgress { .. } | Self::OutcomeUnknown { .. } => None,
        }
    }

    /// The same verdict with another result.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Applied(result) => Verdict::Applied(f(result)),
            Self::Replayed(result) => Verdict::Replayed(f(result)),
            Self::InProgress { until } => Verdict::InProgress { until },
            Self::OutcomeUnknown { since } => Verdict::OutcomeUnknown { since },
        }
    }

    /// Whether the effect happened in this delivery.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }

    /// Whether it had happened before.
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}
