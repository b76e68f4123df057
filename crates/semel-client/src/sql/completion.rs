//! The completion of a job as a worker fills it in.

use serde::Serialize;
use serde_json::json;

use super::Error;
use crate::Effect;

/// The work is done: what came of it, and what became of the effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub(super) job: String,
    pub(super) lease: String,
    pub(super) result: Option<String>,
    effect: Option<Effect>,
    effect_key: Option<String>,
}

impl Completion {
    /// Of the job and with the lease that a delivery carried.
    pub fn new(job: impl Into<String>, lease: impl Into<String>) -> Self {
        Self { job: job.into(), lease: lease.into(), result: None, effect: None, effect_key: None }
    }

    /// What is kept as the result, 64 KiB of JSON at most.
    pub fn result(mut self, result: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        self.result = Some(serde_json::to_string(result).map_err(Error::Json)?);
        Ok(self)
    }

    /// What became of the effect.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// The same, with the key it is recorded under in the ledger.
    #[must_use]
    pub fn effect_under(mut self, effect: Effect, key: impl Into<String>) -> Self {
        self.effect_key = Some(key.into());
        self.effect(effect)
    }

    /// The receipt as the function reads it.
    pub(super) fn receipt(&self) -> Option<String> {
        self.effect.map(|outcome| json!({ "outcome": outcome, "key": self.effect_key }).to_string())
    }
}
