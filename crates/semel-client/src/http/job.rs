//! A job as the server shows it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{Receipt, State, time};

/// A job.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Where it stands.
    #[serde(rename = "status")]
    pub state: State,
    /// Attempts used up.
    pub attempts: u32,
    /// Attempts it may use.
    pub max_attempts: u32,
    /// Times it was deferred.
    pub defer_count: u32,
    /// The sender's key.
    pub idempotency_key: Option<String>,
    /// The payload, byte for byte; `None` once its retention is over.
    pub payload: Option<Box<RawValue>>,
    /// When it is to run, or was to run first.
    #[serde(deserialize_with = "time::read")]
    pub scheduled_for: SystemTime,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Its deliveries, oldest first.
    pub history: Vec<Attempt>,
    /// When it was published.
    #[serde(deserialize_with = "time::read")]
    pub created_at: SystemTime,
    /// When it ended.
    #[serde(deserialize_with = "time::read_maybe")]
    pub completed_at: Option<SystemTime>,
    /// What the worker returned, as JSON; [`Job::result`] reads it.
    #[serde(rename = "result")]
    pub raw_result: Option<Box<RawValue>>,
    /// What the worker said of the effect.
    pub effect: Option<Receipt>,
    /// Its priority.
    pub priority: i32,
    /// Its group.
    pub group: Option<String>,
    /// What is delivered with it.
    pub metadata: BTreeMap<String, String>,
    /// Publishes that were answered with this job.
    pub duplicates: u32,
}

/// One delivery of a job.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// Its number.
    pub attempt: u32,
    /// How it ended.
    pub status: AttemptStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// What the webhook answered.
    pub webhook_status_code: Option<u16>,
    /// When it was settled.
    #[serde(deserialize_with = "time::read")]
    pub timestamp: SystemTime,
    /// How long it took.
    #[serde(rename = "durationMs", deserialize_with = "millis")]
    pub duration: Option<Duration>,
    /// What the worker said of the effect.
    pub effect: Option<Receipt>,
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum AttemptStatus {
    /// The work was done.
    Success,
    /// The webhook did not answer as it should.
    Failed,
    /// The worker said no.
    Nacked,
    /// The worker asked for time; this burned no attempt.
    Deferred,
    /// The lease ran out without a word.
    Expired,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl Job {
    /// What the worker returned; `None` if that was nothing, or the job has not ended.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.raw_result.as_deref().map(|raw| serde_json::from_str(raw.get())).transpose()
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| D::Error::custom(format!("{name} is no state of a job")))
    }
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
}
