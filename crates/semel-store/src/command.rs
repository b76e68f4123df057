//! Commands: everything that changes a store, as values, so that a batch can mix them.

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::Extend;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::{Publish, Published};
use semel_core::queue::QueueConfig;
use semel_core::records::{ApiKeyRecord, ScheduleRecord, WebhookSecret};
use semel_core::refusal::Refusal;
use semel_core::replay::ReplayRecord;
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};

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
    /// Put an unfinished job among the dead letters. Answered by [`Reply::Done`].
    ///
    /// MUST burn no attempt and MUST keep the reason as the job's last error. A delivery that is out ends: its token is
    /// stale from then on. The job's group MUST open its next one. A finished job is refused as
    /// [`Refusal::WrongState`].
    Bury {
        /// The job.
        id: JobId,
        /// Why, in the words of a person or a rule; cut to what a history keeps.
        reason: String,
    },
    /// Give a dead letter another life. Answered by [`Reply::Done`].
    Replay(JobId),
    /// Take a dead letter out of the dead letters now, whatever its retention. Answered by [`Reply::Done`].
    ///
    /// Its payload, metadata, history and result MUST be gone; its key MUST hold until its window ends. A job whose key
    /// holds nothing any more MUST be gone entirely. A job that is not dead is refused as [`Refusal::WrongState`], one
    /// that has been stripped before as [`Refusal::PayloadGone`].
    Purge(JobId),
    /// Free a key whose job has it, for a reason that is kept. Answered by [`Reply::KeyReleased`].
    ReleaseKey {
        /// The queue.
        queue: QueueName,
        /// The key.
        key: Key,
        /// Why.
        reason: String,
    },
    /// Make or change a queue. Answered by [`Reply::Done`]. A queue that is changed MUST keep its secrets.
    PutQueue {
        /// Its name.
        name: QueueName,
        /// How it is to behave.
        config: Box<QueueConfig>,
    },
    /// Take a queue away, when it has no unfinished job. Answered by [`Reply::Done`]. Its secrets MUST go with it.
    DeleteQueue(QueueName),
    /// Replace the webhook secrets of a queue, all of them. Answered by [`Reply::Done`].
    PutSecrets {
        /// The queue.
        queue: QueueName,
        /// Its secrets from now on.
        secrets: Vec<WebhookSecret>,
    },
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
    /// Move a schedule on to its next tick. Answered by [`Reply::Done`].
    ///
    /// MUST be refused as [`Refusal::Outrun`] unless the schedule still stands at `from`, so that of several nodes one
    /// moves it; as [`Refusal::RecordNotFound`] if it is gone.
    AdvanceSchedule {
        /// The schedule.
        name: String,
        /// The tick it stands at, as far as the caller knows.
        from: Timestamp,
        /// The tick to move on to.
        to: Timestamp,
    },
    /// Make or change an API key. Answered by [`Reply::Done`].
    PutApiKey(Box<ApiKeyRecord>),
    /// Take an API key away. Answered by [`Reply::Done`].
    DeleteApiKey(String),
    /// Note that an API key was used. Answered by [`Reply::Done`].
    ///
    /// An earlier time than the one that is kept MUST change nothing. A key that is gone MUST stay gone: it is refused as
    /// [`Refusal::RecordNotFound`].
    TouchApiKey {
        /// The key's id.
        id: String,
        /// When it was used.
        at: Timestamp,
    },
    /// Make a replay task, or note how far it has come. Answered by [`Reply::Done`].
    ///
    /// A task that has ended MUST stay ended, and its counts MUST NOT go back, whatever the record says: one node may call
    /// it off while another writes down how far it has come ([`ReplayRecord::following`]).
    PutReplay(Box<ReplayRecord>),
    /// Take a replay task away. Answered by [`Reply::Done`].
    DeleteReplay(String),
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
            Self::Bury { .. } => "bury",
            Self::Replay(_) => "replay",
            Self::Purge(_) => "purge",
            Self::ReleaseKey { .. } => "release_key",
            Self::PutQueue { .. } => "put_queue",
            Self::DeleteQueue(_) => "delete_queue",
            Self::PutSecrets { .. } => "put_secrets",
            Self::Pause { .. } => "pause",
            Self::PutSchedule(_) => "put_schedule",
            Self::DeleteSchedule(_) => "delete_schedule",
            Self::AdvanceSchedule { .. } => "advance_schedule",
            Self::PutApiKey(_) => "put_api_key",
            Self::DeleteApiKey(_) => "delete_api_key",
            Self::TouchApiKey { .. } => "touch_api_key",
            Self::PutReplay(_) => "put_replay",
            Self::DeleteReplay(_) => "delete_replay",
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
        /// The queue of the job.
        queue: QueueName,
        /// Where the job stands now.
        state: State,
        /// When it is due again, if it will be delivered again.
        due: Option<Timestamp>,
        /// How long the delivery took, as the history has it; `None` for a repeat, and for a delivery that goes on.
        took: Option<Millis>,
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
        /// The jobs, in the order in which their leases ran out.
        jobs: Vec<Rescued>,
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

/// A job whose lease ran out and was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescued {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Where it stands now.
    pub state: State,
    /// When it is due again, if it will be delivered again.
    pub due: Option<Timestamp>,
}

/// The answer to one command: what it brought about, or why it was refused (then it changed nothing).
pub type Answer = Result<Reply, Refusal>;
