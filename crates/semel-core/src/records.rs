//! The small records a store keeps beside jobs: queues, schedules, API keys.

use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::name::{QueueName, check_text};
use crate::queue::QueueConfig;
use crate::time::Timestamp;
use crate::violation::Violations;

/// A queue as a store returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueRecord {
    /// Its name.
    pub name: QueueName,
    /// How it behaves.
    pub config: QueueConfig,
    /// Pause, hold, breaker and rate as they stand.
    pub gate: Gate,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A schedule: publish to a queue whenever the expression says so. Each tick is published under a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// Its name, unique in the store.
    pub name: String,
    /// The queue it publishes to.
    pub queue: QueueName,
    /// The cron expression.
    pub cron: String,
    /// The time zone it is read in.
    pub zone: String,
    /// The payload of each job: JSON text.
    pub payload: String,
    /// The next tick that has not been published yet.
    pub next_at: Timestamp,
}

/// What an API key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Publish jobs.
    Publish,
    /// Lease and settle.
    Work,
    /// Read jobs, keys and statistics.
    Read,
    /// Change queues and schedules, replay, cancel, release keys.
    Manage,
    /// Everything, API keys included.
    Admin,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRecord {
    /// Its id, unique in the store.
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal; the secret itself is never stored.
    pub hash: String,
    /// What people call it.
    pub label: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// Which queues, as globs.
    pub queues: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl ScheduleRecord {
    /// Checks what can be checked without a calendar; cron and zone are parsed where they are used.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require(check_text("name", &self.name).is_ok(), "name", || {
            "must be 1 to 255 printable characters".into()
        });
        wrong.require(!self.cron.trim().is_empty(), "cron", || "must not be empty".into());
        wrong.require(!self.zone.trim().is_empty(), "zone", || "must name a time zone, such as UTC".into());
        wrong.require(crate::Payload::from_json(self.payload.clone()).is_ok(), "payload", || {
            "must be JSON".into()
        });
        wrong.into_result()
    }
}

impl ApiKeyRecord {
    /// Checks the record as a whole.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require(check_text("id", &self.id).is_ok(), "id", || {
            "must be 1 to 255 printable characters".into()
        });
        let hex = self.hash.len() == 64 && self.hash.bytes().all(|b| b.is_ascii_hexdigit());
        wrong.require(hex, "hash", || "must be a SHA-256 in hexadecimal".into());
        wrong.require(!self.scopes.is_empty(), "scopes", || "must name at least one scope".into());
        wrong.into_result()
    }
}
