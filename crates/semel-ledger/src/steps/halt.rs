//! Why a job's delivery ends before the job does.

use std::fmt::Display;

use crate::Error;
use crate::time::{Moment, Until};

/// What a step returns when the job cannot go on, for `?` to pass on.
#[derive(Debug, thiserror::Error)]
pub enum Halt<E> {
    /// The step failed. The next delivery goes on from it.
    #[error(transparent)]
    Failed(#[from] Error<E>),
    /// Another delivery is at this step.
    #[error("another delivery is at this step")]
    InProgress {
        /// When its lease ends.
        until: Until,
    },
    /// Nobody knows whether the step happened.
    #[error("nobody knows whether the step happened")]
    OutcomeUnknown {
        /// When it was first attempted.
        since: Moment,
    },
    /// The job is given up: what was done is undone. A step returns this in the deliveries that go on undoing.
    #[error("the job is given up: {reason}")]
    GiveUp {
        /// For whoever looks at the dead letters.
        reason: String,
    },
}

impl<E> Halt<E> {
    /// Gives the job up. What its steps did is undone, and it is not tried again.
    pub fn give_up(reason: impl Display) -> Self {
        Self::GiveUp { reason: reason.to_string() }
    }
}
