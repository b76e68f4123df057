//! What can go wrong with the store itself, as opposed to a request the domain refuses.

use std::time::Duration;

use semel_core::violation::Violations;

/// The store could not do what it was asked. Every variant says what the caller knows, and what to do next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done; the same call may work later.
    #[error("the store is busy: {what}; try again in {}s", .retry_after.as_secs_f32().ceil())]
    Busy {
        /// What is busy.
        what: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// It may or may not have been done: the answer was lost. A publish with a key can be repeated to find out.
    #[error("the outcome is unknown: {0}; repeat the call with the same key or token to find out")]
    Unknown(String),
    /// No room for new jobs. Nothing was done. Settles still work, and free room in time.
    #[error("the disk is full: {0}; free space or let finished jobs expire, then publish again")]
    Full(String),
    /// A disk or system call failed. Nothing more is written until the store is reopened.
    #[error("the store has failed: {0}; it takes no more writes: check the disk and restart")]
    Failed(String),
    /// Something stored cannot be read. It was left as it is.
    #[error(
        "damaged: {0}; run `semel store check` on the directory, and restore from a backup if it confirms"
    )]
    Corrupt(String),
    /// The batch is larger than a store takes. Nothing was done.
    #[error("a batch of {got} commands is too large, {max} is the most: send it in parts")]
    TooMany {
        /// How many commands it has.
        got: usize,
        /// How many it may have.
        max: usize,
    },
    /// The question itself is not valid. It is not worth repeating until it is mended.
    #[error("{0}")]
    Invalid(Violations),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The store cannot be opened.
    #[error("{0}")]
    Open(String),
}

impl StoreError {
    /// Whether the same call may work later without anybody's help.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unknown(_) | Self::Full(_))
    }

    /// Whether the call may have taken effect.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}
