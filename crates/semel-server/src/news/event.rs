//! One thing that happened, as the event stream tells it.

use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A job was published.
    Published,
    /// A publish was answered with an earlier job.
    Deduplicated,
    /// The same, but with another payload.
    Collision,
    /// A job went out to a worker.
    Leased,
    /// A worker has it and will settle later.
    Received,
    /// A job is done.
    Completed,
    /// An attempt failed, another will follow.
    Retrying,
    /// A worker asked for time.
    Deferred,
    /// A lease ran out.
    Expired,
    /// A job became a dead letter.
    Dead,
    /// A job was called off.
    Cancelled,
    /// A dead letter got another life.
    Replayed,
    /// A dead letter was taken out.
    Purged,
    /// A key was released.
    KeyReleased,
    /// A queue was made, changed, paused, resumed or taken away.
    QueueChanged,
    /// A key or an effect comes back more often than its queue allows.
    PersistentDuplicate,
    /// A time-out is shorter than handlers take.
    LeaseAdvice,
}

impl Kind {
    /// The name in the event stream.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "job.published",
            Self::Deduplicated => "job.deduplicated",
            Self::Collision => "job.collision",
            Self::Leased => "job.leased",
            Self::Received => "job.received",
            Self::Completed => "job.completed",
            Self::Retrying => "job.retrying",
            Self::Deferred => "job.deferred",
            Self::Expired => "job.expired",
            Self::Dead => "job.dead",
            Self::Cancelled => "job.cancelled",
            Self::Replayed => "job.replayed",
            Self::Purged => "job.purged",
            Self::KeyReleased => "key.released",
            Self::QueueChanged => "queue.changed",
            Self::PersistentDuplicate => "duplicate.persistent",
            Self::LeaseAdvice => "advice.lease",
        }
    }
}

/// One thing that happened. It never carries a payload or a key: whoever may see those looks the job up.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// When.
    pub at: Timestamp,
    /// In which queue; `None` where only the job is known.
    pub queue: Option<QueueName>,
    /// To which job.
    pub job: Option<JobId>,
    /// More, in words.
    pub detail: Option<String>,
}
