//! Who an entry of the ledger belongs to: consumer, key and step.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Longest key, in bytes. The same as a queue's: every database indexes it whole.
pub const MAX_KEY: usize = 255;

/// Longest consumer and step, in bytes. With the key they stay under the index limits of all databases.
pub const MAX_NAME: usize = 100;

/// The idempotency key of a job, given by whoever published it.
///
/// It names the *logical* operation ("charge order 9482"): it stays the same over retries, redeliveries and replays. The
/// id of a delivery is no key, nor is a hash of the payload.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

/// Who does the work: two consumers of one event have one entry each, and do not swallow each other's work.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Consumer(Arc<str>);

/// A part of a job. Most jobs have one part, which has no name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Step(Arc<str>);

/// What a key, a consumer or a step may not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is none. A ledger cannot invent one: a key made here would differ on every delivery.
    #[error("the {0} is missing: it comes from whoever publishes the job, not from the worker")]
    Missing(&'static str),
    /// It does not fit into an index.
    #[error(
        "the {what} is {length} bytes long, and {limit} are allowed: use the identifier of the operation, not its content"
    )]
    TooLong {
        /// Key, consumer or step.
        what: &'static str,
        /// Of the one that was given.
        length: usize,
        /// The most there may be.
        limit: usize,
    },
    /// Line breaks, NUL and the like: a sign that something else was passed.
    #[error("the {0} contains a control character")]
    Control(&'static str),
    /// Slashes in steps are the ledger's own.
    #[error("the step {0:?} may consist of letters, digits, '_', '-' and '.' only")]
    Step(String),
}

impl Key {
    /// A key of 1 to 255 bytes without control characters.
    pub fn new(key: impl AsRef<str>) -> Result<Self, KeyError> {
        checked("key", key.as_ref(), MAX_KEY).map(Self)
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Consumer {
    /// A name of 1 to 100 bytes without control characters.
    pub fn new(name: impl AsRef<str>) -> Result<Self, KeyError> {
        checked("consumer", name.as_ref(), MAX_NAME).map(Self)
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Step {
    /// The job as a whole.
    pub fn whole() -> Self {
        Self::default()
    }

    /// A named part: 1 to 90 letters, digits, `_`, `-` and `.`.
    pub fn new(name: impl AsRef<str>) -> Result<Self, KeyError> {
        let name = name.as_ref();
        // Some room is left for what the ledger appends.
        let step = checked("step", name, MAX_NAME - 10)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.chars().all(plain) { Ok(Self(step)) } else { Err(KeyError::Step(name.to_owned())) }
    }

    /// A part that the ledger keeps for itself; no user's step has a slash.
    pub(crate) fn own(&self, suffix: &str) -> Self {
        Self(format!("{}/{suffix}", self.0).into())
    }

    /// Empty for the job as a whole.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(what: &'static str, text: &str, limit: usize) -> Result<Arc<str>, KeyError> {
    if text.is_empty() {
        return Err(KeyError::Missing(what));
    }
    if text.len() > limit {
        return Err(KeyError::TooLong { what, length: text.len(), limit });
    }
    if text.chars().any(char::is_control) {
        return Err(KeyError::Control(what));
    }
    Ok(text.into())
}

/// The identity of one entry. The store's unique constraint is on all three.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Who does the work.
    pub consumer: Consumer,
    /// The operation.
    pub key: Key,
    /// Which part of it.
    pub step: Step,
}

impl Scope {
    /// The key to hand to a service that takes one: the same on every attempt, another for every consumer and step.
    ///
    /// It is `semel-` and 32 hexadecimal digits, which fits all providers we know of (the shortest limit is 38): the
    /// first half of the SHA-256 of consumer, key and step, separated by NUL.
    pub fn downstream_key(&self) -> String {
        let text = [self.consumer.as_str(), self.key.as_str(), self.step.as_str()].join("\0");
        let digest = Sha256::digest(text.as_bytes());
        format!("semel-{}", hex(&digest[..16]))
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.key, self.consumer)?;
        if self.step.as_str().is_empty() { Ok(()) } else { write!(f, ", step {}", self.step) }
    }
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    )*};
}

shown_as_text!(Key, Consumer, Step);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_checked() {
        assert_eq!(Key::new(""), Err(KeyError::Missing("key")));
        assert_eq!(Key::new("a\nb"), Err(KeyError::Control("key")));
        assert!(Key::new("k".repeat(255)).is_ok());
        assert!(matches!(Key::new("k".repeat(256)), Err(KeyError::TooLong { length: 256, .. })));
    }

    #[test]
    fn a_step_of_a_user_is_never_one_of_the_ledger() {
        assert!(matches!(Step::new("charge/undo"), Err(KeyError::Step(_))));
        assert_eq!(Step::new("charge").unwrap().own("undo").as_str(), "charge/undo");
    }

    #[test]
    fn the_downstream_key_tells_every_part_apart() {
        let scope = |consumer: &str, key: &str, step: Step| Scope {
            consumer: Consumer::new(consumer).unwrap(),
            key: Key::new(key).unwrap(),
            step,
        };
        let whole = scope("billing", "order-1", Step::whole());
        assert_eq!(whole.downstream_key(), whole.clone().downstream_key());
        assert_eq!(whole.downstream_key().len(), 38);
        let others = [
            scope("mail", "order-1", Step::whole()),
            scope("billing", "order-2", Step::whole()),
            scope("billing", "order-1", Step::new("charge").unwrap()),
        ];
        assert!(others.iter().all(|other| other.downstream_key() != whole.downstream_key()));
    }
}
