//! What a handler says about one delivery of a job.

use serde::Serialize;

use crate::{Fingerprint, Key, KeyError, Step};

/// One delivery of a job, as the ledger sees it: its key, and what else is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub(crate) key: Key,
    pub(crate) step: Step,
    pub(crate) token: Option<u64>,
    pub(crate) input: Option<Fingerprint>,
}

impl Call {
    /// A delivery of the job with this key.
    pub fn new(key: impl AsRef<str>) -> Result<Self, KeyError> {
        Ok(Self::from(Key::new(key)?))
    }

    /// With the queue's fencing token: numbers that grow with every delivery of the job. A delivery with a smaller one than
    /// the ledger has seen is stale, whoever holds the lease.
    #[must_use]
    pub fn token(mut self, token: u64) -> Self {
        self.token = Some(token);
        self
    }

    /// With the input, of which a fingerprint is kept: the same key with another input is a collision.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Result<Self, serde_json::Error> {
        Ok(self.fingerprint(Fingerprint::of(input)?))
    }

    /// With a fingerprint that was made before.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.input = Some(fingerprint);
        self
    }

    /// A part of this job, with an entry of its own; see [`Ledger::steps`](crate::Ledger::steps) for jobs of several.
    pub fn step(&self, name: impl AsRef<str>) -> Result<Self, KeyError> {
        Ok(self.at(Step::new(name)?))
    }

    pub(crate) fn at(&self, step: Step) -> Self {
        Self { step, ..self.clone() }
    }

    /// The job's key.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl From<Key> for Call {
    fn from(key: Key) -> Self {
        Self { key, step: Step::whole(), token: None, input: None }
    }
}
