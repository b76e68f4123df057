//! What became of an effect.

use serde::{Deserialize, Serialize};

/// Whether the effect of a job happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// In this delivery.
    Applied,
    /// In an earlier one; this delivery returned the first result.
    Replayed,
    /// The job has no effect to record.
    None,
}

/// What a worker reports about the effect of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Whether it happened, and when.
    pub outcome: Effect,
    /// The key it is recorded under in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
