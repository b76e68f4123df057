//! A job: what was published (never changes) and what has become of it (changes with every settle).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Token};
use crate::key::{self, Fingerprint, Key};
use crate::lifecycle::State;
use crate::name::{Group, QueueName};
use crate::outcome::{Effect, Receipt};
use crate::payload::Payload;
use crate::queue::QueueConfig;
use crate::retry::RetryPolicy;
use crate::settle::Verb;
use crate::time::{Millis, Timestamp};

/// How many attempts a job's history shows. Deferrals are unlimited, so the history must not be: the newest stay,
/// and [`Progress::history_dropped`] says how many went.
pub const HISTORY_MAX: usize = 100;

/// A job's priority, -100 to 100; higher goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(i8);

impl Priority {
    /// The lowest and the highest priority.
    pub const RANGE: std::ops::RangeInclusive<i8> = -100..=100;

    /// A priority, if it is in range.
    pub fn new(value: i8) -> Option<Self> {
        Self::RANGE.contains(&value).then_some(Self(value))
    }

    /// The number.
    pub const fn get(self) -> i8 {
        self.0
    }
}

/// What a job says for itself where the queue has a default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// Attempt cap.
    pub max_attempts: Option<u32>,
    /// Retry policy.
    pub retry: Option<RetryPolicy>,
    /// How long one delivery may take.
    pub timeout: Option<Millis>,
    /// Key window.
    pub window: Option<Millis>,
}

impl Overrides {
    /// Whether the queue decides everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What was published. It never changes; when its retention is over it is stripped of all but its key.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// The queue.
    pub queue: QueueName,
    /// The payload; `None` once the job has been stripped.
    pub payload: Option<Payload>,
    /// The digest of the payload.
    pub fingerprint: Fingerprint,
    /// The sender's key.
    pub key: Option<Key>,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it was to run first: `created_at` for a plain job.
    pub run_at: Timestamp,
    /// Its priority.
    pub priority: Priority,
    /// Its group.
    pub group: Option<Group>,
    /// Whether its group gates it: the queue had a group limit when it was published.
    pub gated: bool,
    /// What it says for itself.
    pub overrides: Overrides,
    /// Flat strings delivered with the job.
    pub metadata: Vec<(String, String)>,
}

impl JobSpec {
    /// Whether publish order is ready order for this job: no delay, no priority, no gating group.
    pub fn is_plain(&self) -> bool {
        self.run_at == self.created_at && self.priority == Priority::default() && !self.gated
    }

    /// What is left when the job's retention is over but its key still holds: enough to recognise a late duplicate.
    #[must_use]
    pub fn stripped(&self) -> Self {
        Self { payload: None, metadata: Vec::new(), ..self.clone() }
    }

    /// How many attempts it may use.
    pub fn max_attempts(&self, config: &QueueConfig) -> u32 {
        self.overrides.max_attempts.unwrap_or(config.max_attempts)
    }

    /// How long its key holds after its end.
    pub fn window(&self, config: &QueueConfig) -> Millis {
        self.overrides.window.unwrap_or(config.window)
    }
}

/// How one delivery ended, as the history shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The work was done.
    Success,
    /// The delivery failed: an error, a status, a broken connection.
    Failed,
    /// The worker said no.
    Nacked,
    /// Backpressure.
    Deferred,
    /// The lease ran out.
    Expired,
}

/// One delivery in a job's history.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The number of the attempt it was (a deferral repeats the number of the attempt it spared).
    pub number: u32,
    /// How it ended.
    pub status: AttemptStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// The status code of a webhook.
    pub status_code: Option<u16>,
    /// When it was settled.
    pub at: Timestamp,
    /// How long the worker took, if known.
    pub duration: Option<Millis>,
    /// Whether the effect was applied.
    pub effect: Option<Receipt>,
}

/// The last settle that took effect, kept so that repeating it is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSettle {
    /// The token it came with.
    pub token: Token,
    /// What it said.
    pub verb: Verb,
}

/// What has become of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Where it stands.
    pub state: State,
    /// When it may be delivered next.
    pub due: Timestamp,
    /// Attempts used up.
    pub attempts: u32,
    /// Times it was deferred.
    pub deferrals: u32,
    /// Times it was replayed.
    pub replays: u32,
    /// When it was last replayed, by a person or by a publish that revived it.
    pub replayed_at: Option<Timestamp>,
    /// Its deliveries, oldest first, at most [`HISTORY_MAX`].
    pub history: Vec<Attempt>,
    /// How many older deliveries the history no longer shows.
    pub history_dropped: u32,
    /// What the worker returned.
    pub result: Option<Payload>,
    /// The receipt of the effect.
    pub effect: Option<Receipt>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The last settle that took effect.
    pub settled: Option<LastSettle>,
    /// Why its key was released, if it was.
    pub released: Option<String>,
}

impl Progress {
    /// A job that has just been published.
    pub fn fresh(due: Timestamp) -> Self {
        Self {
            state: State::Pending,
            due,
            attempts: 0,
            deferrals: 0,
            replays: 0,
            replayed_at: None,
            history: Vec::new(),
            history_dropped: 0,
            result: None,
            effect: None,
            finished_at: None,
            settled: None,
            released: None,
        }
    }

    /// What is left when the job's retention is over but its key still holds: how it ended, not how it got there.
    #[must_use]
    pub fn stripped(&self) -> Self {
        let gone = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        Self {
            history: Vec::new(),
            history_dropped: self.history_dropped.saturating_add(gone),
            result: None,
            ..self.clone()
        }
    }

    /// What went wrong last.
    pub fn last_error(&self) -> Option<&str> {
        self.history.iter().rev().find_map(|a| a.error.as_deref())
    }

    /// Adds a delivery to the history and drops the oldest ones past [`HISTORY_MAX`].
    pub(crate) fn remember(&mut self, attempt: Attempt) {
        if self.history.len() >= HISTORY_MAX {
            let excess = self.history.len() + 1 - HISTORY_MAX;
            self.history.drain(..excess);
            self.history_dropped =
                self.history_dropped.saturating_add(u32::try_from(excess).unwrap_or(u32::MAX));
        }
        self.history.push(attempt);
    }
}

/// A job as a store returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What was published.
    pub spec: Arc<JobSpec>,
    /// What has become of it.
    pub progress: Progress,
    /// Publishes that were answered with this job instead of a new one.
    pub duplicates: u32,
}

impl Job {
    /// When the job's key stops holding; `None` while the job is unfinished or has no key.
    pub fn key_expires_at(&self, config: &QueueConfig) -> Option<Timestamp> {
        self.spec.key.as_ref()?;
        key::expires_at(self.progress.finished_at, self.spec.window(config))
    }

    /// Whether the job still holds its key at `now`.
    pub fn holds_key(&self, config: &QueueConfig, now: Timestamp) -> bool {
        self.spec.key.is_some()
            && self.progress.released.is_none()
            && key::holds(self.progress.finished_at, self.spec.window(config), now)
    }

    /// How many deliveries of its history found that their effect had been applied before.
    pub fn replayed_effects(&self) -> u32 {
        let replayed =
            |a: &&Attempt| a.effect.as_ref().is_some_and(|receipt| receipt.outcome == Effect::Replayed);
        u32::try_from(self.progress.history.iter().filter(replayed).count()).unwrap_or(u32::MAX)
    }

    /// Whether it keeps coming back: published again, or applied again, `limit` times or more.
    pub fn is_persistent_duplicate(&self, limit: u32) -> bool {
        self.duplicates >= limit || self.replayed_effects() >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Effect;
    use crate::publish::{self, Draft};
    use crate::queue::Rules;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn job(duplicates: u32, receipts: &[Option<Effect>]) -> Job {
        let rules = Rules::new(QueueConfig::default()).unwrap();
        let draft = Draft::new(QueueName::try_from("q").unwrap(), Payload::from_json("1").unwrap());
        let spec = draft.check().unwrap().into_spec(&rules, NOW);
        let mut job = publish::create(JobId::from_raw(7).unwrap(), spec);
        job.duplicates = duplicates;
        job.progress.history = receipts.iter().map(|receipt| attempt(*receipt)).collect();
        job
    }

    fn attempt(effect: Option<Effect>) -> Attempt {
        Attempt {
            number: 1,
            status: AttemptStatus::Success,
            error: None,
            status_code: None,
            at: NOW,
            duration: None,
            effect: effect.map(|outcome| Receipt { outcome, key: None }),
        }
    }

    #[test]
    fn a_job_that_comes_back_at_either_door_is_a_persistent_duplicate() {
        let mixed =
            [Some(Effect::Replayed), Some(Effect::Applied), None, Some(Effect::None), Some(Effect::Replayed)];
        assert_eq!(job(0, &mixed).replayed_effects(), 2);
        assert!(job(0, &mixed).is_persistent_duplicate(2));
        assert!(!job(2, &mixed).is_persistent_duplicate(3), "the doors are not added up");
        assert!(job(3, &[]).is_persistent_duplicate(3));
        assert!(!job(2, &[]).is_persistent_duplicate(3));
    }
}
