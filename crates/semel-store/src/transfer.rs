//! A store on its way into another: everything it keeps, in terms that every backend knows and without any backend's format.
//!
//! Jobs are [`Stored`], as a crash would leave them: a lease is no part of a store that is moved. All else is small and
//! comes at once, as [`Holdings`].

use semel_core::ids::JobId;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;

use crate::StoreError;
use crate::working::{QueueId, Stored};

/// Everything a store keeps besides its jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Holdings {
    /// Which store it is.
    pub origin: Origin,
    /// The epoch of its newest tokens.
    pub epoch: u32,
    /// The largest id it ever made.
    pub last_id: JobId,
    /// How many jobs it keeps, as its counts say.
    pub jobs: u64,
    /// Its queues by number, the deleted ones included that jobs may still refer to.
    pub queues: Vec<KeptQueue>,
    /// Its schedules, by name.
    pub schedules: Vec<ScheduleRecord>,
    /// Its API keys, by id.
    pub api_keys: Vec<ApiKeyRecord>,
    /// Its replay tasks, by id.
    pub replays: Vec<ReplayRecord>,
}

/// Which store something comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Where it is, in words for people.
    pub place: String,
    /// Which store it is: two that were not copied from each other never say the same.
    pub store: String,
    /// Which state of it: other text after anything has been changed.
    pub state: String,
}

/// A queue with what only a store knows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptQueue {
    /// Its number, by which jobs refer to it.
    pub id: QueueId,
    /// What callers know of it.
    pub record: QueueRecord,
    /// Whether it has been deleted.
    pub deleted: bool,
}

/// A store that can be read from end to end. Nobody changes it meanwhile.
pub trait Source: Send {
    /// Everything besides the jobs.
    fn holdings(&mut self) -> Result<Holdings, StoreError>;

    /// The next jobs above an id, in the order of their ids; none at the end. There are at most `most` of them, and fewer
    /// if they are large: what they take in memory is of the order of `most_bytes`.
    fn jobs_after(&mut self, after: JobId, most: usize, most_bytes: usize)
    -> Result<Vec<Stored>, StoreError>;
}
