//! Commands: everything that changes a store, as values, so that a batch can mix them.

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::Extend;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::{Publish, Published};
use semel_core::queue::QueueConfig;
use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::refusal::Refusal;
use semel_core::settle::Settle;
use semel_core::time::Timestamp;

/// One change asked for.
#[derive(Debug, Clone)]
pub enum Command {
    /// Store a job, or find the one that holds its key. Answered by [`Reply::Published`].
    Publish(Publish),
    /// Say what became of a delivery. Answered by [`Reply::Settled`].
    Settle(Settle),
    /// Keep a lease longer. Answered by [`Reply::Extended`].
    Extend(Extend),
    /// Call a job off. Answered by [`Reply::Done`].
    Cancel(JobId),
    /// Give a dead letter another life. Answered by [`Reply::Done`].
    Replay(JobId),
    /// Free a key whose job has it, for a reason that is kept. Answered by [`Reply::KeyReleased`].
    ReleaseKey {
        /// The queue.
        queue: QueueName,
        /// The key.
        key: Key,
        /// Why.
        reason: String,
    },
    /// Make or change a queue. Answered by [`Reply::Done`].
    PutQueue {
        /// Its name.
        name: QueueName,
        /// How it is to behave.
        config: Box<QueueConfig>,
    },
    /// Take a queue away, when it has no unfinished job. Answered by [`Reply::Done`].
    DeleteQueue(QueueName),
    /// Stop or restart deliveries of a queue. Answered by [`Reply::Done`].
    Pause {
        /// The queue.
        queue: QueueName,
        /// Whether it is to be paused.
        paused: bool,
    },
    /// Make or change a schedule. Answered by [`Reply::Done`].
    PutSchedule(Box<ScheduleRecord>),
    /// Take a schedule away. Answered by [`Reply::Done`].
    DeleteSchedule(String),
    /// Make or change an API key. Answered by [`Reply::Done`].
    PutApiKey(Box<ApiKeyRecord>),
    /// Take an API key away. Answered by [`Reply::Done`].
    DeleteApiKey(String),
    /// End up to `limit` leases that ran out. Answered by [`Reply::Rescued`].
    Rescue {
        /// How many at most.
        limit: u32,
    },
    /// Look at up to `limit` finished jobs and drop or strip what its retention no longer covers. Answered by [`Reply::Pruned`].
    Prune {
        /// How many to look at, at most.
        limit: u32,
    },
}

impl Command {
    /// The name used in traces and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "publish",
            Self::Settle(_) => "settle",
            Self::Extend(_) => "extend",
            Self::Cancel(_) => "cancel",
            Self::Replay(_) => "replay",
            Self::ReleaseKey { .. } => "release_key",
            Self::PutQueue { .. } => "put_queue",
            Self::DeleteQueue(_) => "delete_queue",
            Self::Pause { .. } => "pause",
            Self::PutSchedule(_) => "put_schedule",
            Self::DeleteSchedule(_) => "delete_schedule",
            Self::PutApiKey(_) => "put_api_key",
            Self::DeleteApiKey(_) => "delete_api_key",
            Self::Rescue { .. } => "rescue",
            Self::Prune { .. } => "prune",
        }
    }
}

/// What a command brought about.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The job, new or found.
    Published(Published),
    /// The settle took effect, now or (if `repeated`) before.
    Settled {
        /// Where the job stands now.
        state: State,
        /// When it is due again, if it will be delivered again.
        due: Option<Timestamp>,
        /// Whether the same settle had taken effect before; then nothing changed.
        repeated: bool,
    },
    /// The lease now ends at this time.
    Extended(Timestamp),
    /// The key is free; this job had it.
    KeyReleased(JobId),
    /// Done.
    Done,
    /// Leases that ran out were ended.
    Rescued {
        /// The jobs.
        jobs: Vec<JobId>,
        /// Whether more are waiting.
        more: bool,
    },
    /// Finished jobs were looked at.
    Pruned {
        /// How many jobs are gone.
        dropped: u32,
        /// How many were stripped of all but their key.
        stripped: u32,
        /// Whether this pass over the finished jobs has more to look at.
        more: bool,
    },
}

/// The answer to one command: what it brought about, or why it was refused (then it changed nothing).
pub type Answer = Result<Reply, Refusal>;
