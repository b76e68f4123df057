//! What the functions answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Error;
use crate::State;

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The job, new or found.
    pub id: String,
    /// Where it stands.
    pub state: State,
    /// When it was published first.
    pub created_at: SystemTime,
    /// Whether this publish was answered with an earlier one's job.
    pub deduplicated: bool,
    /// Whether the payload is that of the first publish; true for a new job.
    pub payload_matches: bool,
    /// How many publishes were answered with this job instead of a new one, this one included.
    pub duplicates: u32,
    /// When the key stops holding; `None` while the job is unfinished or has no key.
    pub key_expires_at: Option<SystemTime>,
}

/// The answer to a complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The queue of the job.
    pub queue: String,
    /// Whether the same complete had taken effect before; then nothing has changed.
    pub repeated: bool,
    /// How long the delivery took; `None` for a repeat.
    pub took: Option<Duration>,
}

/// The columns of an answer to a publish, in their order.
pub(super) type PublishedRow = (String, String, i64, bool, bool, i32, Option<i64>);

impl Published {
    pub(super) fn read(row: PublishedRow) -> Result<Self, Error> {
        let (id, state, created_at, deduplicated, payload_matches, duplicates, key_expires_at) = row;
        Ok(Self {
            id,
            state: State::named(&state)
                .ok_or_else(|| Error::Answer(format!("{state} is no state of a job")))?,
            created_at: time(created_at),
            deduplicated,
            payload_matches,
            duplicates: u32::try_from(duplicates).unwrap_or(0),
            key_expires_at: key_expires_at.map(time),
        })
    }
}

/// The columns of an answer to a complete, in their order.
pub(super) type CompletedRow = (String, bool, Option<i64>);

impl Completed {
    pub(super) fn read((queue, repeated, took): CompletedRow) -> Self {
        Self { queue, repeated, took: took.map(span) }
    }
}

fn span(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + span(millis)
}
