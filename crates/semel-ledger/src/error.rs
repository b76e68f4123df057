//! What can go wrong, and what to do next.

use std::error::Error as StdError;
use std::fmt;

use crate::KeyError;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The effect itself failed. What the ledger remembers of it depends on the mode.
    #[error("the effect failed: {0}")]
    Effect(#[source] E),
    /// The key was used before, with another input. Retrying cannot help: two operations share a key.
    #[error("the key was used with another input: {} differ{}", .fields.join(", "), if .fields.len() == 1 { "s" } else { "" })]
    Collision {
        /// The fields that differ.
        fields: Vec<String>,
    },
    /// This delivery was overtaken: a newer one holds the entry. Drop the delivery; do not settle it.
    #[error("a newer delivery has taken over; this one may not go on")]
    Stale,
    /// The effect happened, but it could not be written down. The next delivery recovers it; do not undo anything.
    #[error("the effect happened, and recording it failed: {0}; the next delivery will find out")]
    Unrecorded(#[source] StoreError),
    /// Nobody knows whether the transaction was committed. Ask again with the same key: the ledger will know.
    #[error("the commit was not confirmed: {0}; deliver again, the ledger will know")]
    CommitUnknown(#[source] StoreError),
    /// The ledger's store failed, and nothing was done.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A result could not be written as JSON, or the recorded one not be read: it has another type than the first run's.
    #[error("the result of the effect cannot be {action} as JSON: {source}")]
    Result {
        /// Written or read.
        action: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The job was given up, and its finished steps were compensated.
    #[error("the job was given up and compensated: {reason}")]
    Compensated {
        /// As it was given when the job was given up.
        reason: String,
    },
    /// The key, or a name, is not one.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl<E> Error<E> {
    /// Whether another delivery of the same job can come to a verdict. Of a failed effect only its author knows; here it
    /// counts as retryable, as queues do.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Effect(_) | Self::Unrecorded(_) | Self::CommitUnknown(_) => true,
            Self::Store(error) => error.retryable(),
            Self::Stale => true,
            Self::Collision { .. } | Self::Result { .. } | Self::Compensated { .. } | Self::Key(_) => false,
        }
    }

    /// The same error, with another error of the effect.
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> Error<F> {
        match self {
            Self::Effect(error) => Error::Effect(f(error)),
            Self::Collision { fields } => Error::Collision { fields },
            Self::Stale => Error::Stale,
            Self::Unrecorded(error) => Error::Unrecorded(error),
            Self::CommitUnknown(error) => Error::CommitUnknown(error),
            Self::Store(error) => Error::Store(error),
            Self::Result { action, source } => Error::Result { action, source },
            Self::Compensated { reason } => Error::Compensated { reason },
            Self::Key(error) => Error::Key(error),
        }
    }

    pub(crate) fn written(source: serde_json::Error) -> Self {
        Self::Result { action: "written", source }
    }

    pub(crate) fn read(source: serde_json::Error) -> Self {
        Self::Result { action: "read", source }
    }
}

/// How an effect failed: that decides what the ledger may forget.
///
/// An error turns into [`Failure::Unknown`] by `?`: after a time-out, a reset connection or an exception nobody knows
/// whether the charge went through. Say [`Failure::not_applied`] only where it certainly did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure<E> {
    /// It may have happened.
    Unknown(E),
    /// It certainly did not happen: the request was refused, or never left.
    NotApplied(E),
}

impl<E> Failure<E> {
    /// It certainly did not happen.
    pub fn not_applied(error: E) -> Self {
        Self::NotApplied(error)
    }

    /// The error itself.
    pub fn into_inner(self) -> E {
        match self {
            Self::Unknown(error) | Self::NotApplied(error) => error,
        }
    }
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self::Unknown(error)
    }
}

/// What went wrong with the store. Every one of them means: nothing is known, do not act.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of store errors, by what to do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// It cannot be reached, or went away in the middle of a question. Try again later.
    Unavailable,
    /// It answers and refuses: read-only, full, no permission. Somebody has to look at it.
    Refused,
    /// The tables are not there, or of another version. Run the migrations of `ledger/`, or `ensure_schema`.
    Schema,
    /// It answered something that the ledger does not understand. Do not go on before somebody has looked.
    Corrupt,
}

impl StoreError {
    /// An error without another one behind it.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error of a driver.
    pub fn caused(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(source.into()) }
    }

    /// The message and what is behind it. Some drivers name the cause in their own text, others only in their source.
    fn story(&self) -> String {
        let mut story = self.message.clone();
        let mut behind = self.source();
        while let Some(error) = behind {
            let text = error.to_string();
            if !story.contains(&text) {
                story = format!("{story}: {text}");
            }
            behind = error.source();
        }
        story
    }

    /// What to do about it.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether it may pass by itself: the store comes back, somebody makes room.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Refused)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = match self.kind {
            StoreErrorKind::Unavailable => "nothing was decided; deliver again later",
            StoreErrorKind::Refused => "the store refuses to write; make it writable, then deliver again",
            StoreErrorKind::Schema => "run ensure_schema or the migrations in ledger/",
            StoreErrorKind::Corrupt => "look at the entry before going on",
        };
        write!(f, "the ledger's store: {} ({next})", self.story())
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do_next() {
        let error = StoreError::caused(StoreErrorKind::Refused, "claiming failed", "disk full");
        assert_eq!(
            error.to_string(),
            "the ledger's store: claiming failed: disk full (the store refuses to write; make it writable, then deliver again)"
        );
        let collision: Error<String> = Error::Collision { fields: vec!["amount".into(), "to".into()] };
        assert_eq!(collision.to_string(), "the key was used with another input: amount, to differ");
        assert!(!collision.retryable());
    }

    #[test]
    fn a_plain_error_may_have_happened() {
        fn effect() -> Result<(), Failure<String>> {
            Err("timed out".to_owned())?
        }
        assert_eq!(effect(), Err(Failure::Unknown("timed out".to_owned())));
    }
}
