//! The domain says no: a clear answer to one request, after which nothing has changed.

use crate::ids::JobId;
use crate::lifecycle::State;
use crate::name::QueueName;
use crate::violation::Violations;

/// Why a request was refused. But for a full store, the same request gets the same answer while nothing else changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No queue of that name.
    #[error("there is no queue {0}: create it first")]
    QueueNotFound(QueueName),
    /// No job of that id (any more).
    #[error("there is no job {0}: it was never published here, or its retention is over")]
    JobNotFound(JobId),
    /// No job holds that key.
    #[error("no job holds the key {0}: it was never published here, was released, or its window is over")]
    KeyNotFound(String),
    /// No schedule, API key or replay of that name.
    #[error("there is no {kind} {name}")]
    RecordNotFound {
        /// What kind of record.
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// Somebody else was quicker: the record no longer stands where this request found it.
    #[error("another node has done this already: {kind} {name} has moved on; read it again")]
    Outrun {
        /// What kind of record.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The queue wants a key with every publish.
    #[error("queue {0} requires an idempotency key: send one that names the business event")]
    KeyRequired(QueueName),
    /// The key does not look as the queue's pattern says.
    #[error("the key does not match the queue's pattern {pattern}: send the business key it describes")]
    KeyPattern {
        /// The pattern.
        pattern: String,
    },
    /// The payload is larger than the queue takes.
    #[error("the payload has {size} bytes, the queue takes {limit}: store it elsewhere and send a reference")]
    PayloadTooLarge {
        /// Its size.
        size: usize,
        /// The queue's limit.
        limit: u32,
    },
    /// The key stands for another payload, and the queue rejects that.
    #[error("the key already stands for job {id} with another payload (differs at: {}): use a key per business event", .pointers.join(", "))]
    KeyCollision {
        /// The job that holds the key.
        id: JobId,
        /// Where the payloads differ, as JSON pointers; empty if the first payload is no longer kept.
        pointers: Vec<String>,
    },
    /// The token is not that of the current delivery.
    #[error(
        "the lease of job {0} is not yours any more: it ran out and was taken over, or was settled; drop this work"
    )]
    StaleLease(JobId),
    /// The job is not with a worker.
    #[error("job {id} is {}, not with a worker: there is nothing to settle", .state.name())]
    NotLeased {
        /// The job.
        id: JobId,
        /// Where it stands.
        state: State,
    },
    /// The job is in a state in which this cannot be done.
    #[error("job {id} is {}: it cannot be {action}", .state.name())]
    WrongState {
        /// The job.
        id: JobId,
        /// Where it stands.
        state: State,
        /// What was asked for.
        action: &'static str,
    },
    /// The dead letter's retention is over: only its key is left.
    #[error("the payload of job {0} is no longer kept: publish it again")]
    PayloadGone(JobId),
    /// The queue still has unfinished jobs.
    #[error("queue {queue} has {unfinished} unfinished jobs: cancel or drain them first")]
    QueueNotEmpty {
        /// The queue.
        queue: QueueName,
        /// How many.
        unfinished: u64,
    },
    /// The store has no room for new jobs; what it has can still be worked and settled. Trying later may help.
    #[error(
        "the store has no room for new jobs: free disk space or let finished jobs expire, then publish again"
    )]
    StorageFull,
    /// Something stored that this request needs cannot be read. It was left as it is.
    #[error("{0}: run `semel store check` on the store, and restore from a backup if it confirms the damage")]
    Damaged(String),
    /// The request itself is not valid.
    #[error("{0}")]
    Invalid(Violations),
}

impl Refusal {
    /// A stable name for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::QueueNotFound(_) => "queue_not_found",
            Self::JobNotFound(_) => "job_not_found",
            Self::KeyNotFound(_) => "key_not_found",
            Self::RecordNotFound { .. } => "record_not_found",
            Self::Outrun { .. } => "outrun",
            Self::KeyRequired(_) => "key_required",
            Self::KeyPattern { .. } => "key_pattern",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::KeyCollision { .. } => "key_collision",
            Self::StaleLease(_) => "stale_lease",
            Self::NotLeased { .. } => "not_leased",
            Self::WrongState { .. } => "wrong_state",
            Self::PayloadGone(_) => "payload_gone",
            Self::QueueNotEmpty { .. } => "queue_not_empty",
            Self::StorageFull => "storage_full",
            Self::Damaged(_) => "damaged",
            Self::Invalid(_) => "invalid",
        }
    }
}

impl From<Violations> for Refusal {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations)
    }
}
