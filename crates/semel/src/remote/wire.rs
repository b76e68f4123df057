//! What people want to see of the server's JSON. A newer server may say more: what is not named here is ignored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::printable;

/// A job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) status: String,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) defer_count: u32,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) scheduled_for: String,
    pub(crate) last_error: Option<String>,
    pub(crate) history: Vec<Attempt>,
    pub(crate) created_at: String,
    pub(crate) completed_at: Option<String>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) effect: Option<Receipt>,
    pub(crate) priority: i32,
    pub(crate) group: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) duplicates: u32,
    pub(crate) replays: u32,
    pub(crate) key_released: Option<String>,
}

impl Job {
    /// Whether nothing more happens to it by itself.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "dead" | "cancelled")
    }
}

/// A delivery.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    pub(crate) attempt: u32,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
    pub(crate) webhook_status_code: Option<u16>,
    pub(crate) timestamp: String,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) effect: Option<Receipt>,
}

/// A receipt.
#[derive(Debug, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) outcome: String,
    pub(crate) key: Option<String>,
}

impl Receipt {
    /// In a word or two.
    pub(crate) fn shown(&self) -> String {
        let key = self.key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default();
        printable(&format!("{}{key}", self.outcome))
    }
}

/// A page of jobs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPage {
    pub(crate) jobs: Vec<Job>,
    pub(crate) next_cursor: Option<String>,
}

/// How many jobs stand where.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) processing: u64,
    pub(crate) awaiting_ack: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) oldest_ready: Option<String>,
}

/// A time as it is shown: to the second.
pub(crate) fn moment(time: &str) -> String {
    let shown = time.split_once('.').map_or_else(|| time.to_owned(), |(whole, _)| format!("{whole}Z"));
    printable(&shown)
}
