//! What a client saw: one entry before every call and one after its answer, in the order they were written down.
//!
//! A history is the only thing the [checker](crate::checker) believes besides the store it reads at the end. A process
//! that is about to be killed writes its history to a pipe as it goes, so an entry has a compact text form (one line)
//! that can be read back.

mod line;

use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

pub use line::BadLine;

/// The number of an operation: unique among the operations of one process.
pub type Op = u64;

/// The low half of a payload's fingerprint. 64 bits tell a few million generated payloads apart, and keep lines short.
pub type Digest = u64;

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A queue, and what its jobs were promised.
    Queue(Promise),
    /// A call is about to be made.
    Invoke {
        /// The operation.
        op: Op,
        /// The store's time just before.
        at: Timestamp,
        /// What is asked for.
        call: Call,
    },
    /// A call was answered: it took effect.
    Ok {
        /// The operation.
        op: Op,
        /// The store's time just after.
        at: Timestamp,
        /// What came back.
        answer: Answer,
    },
    /// A call was refused: it certainly changed nothing.
    Fail {
        /// The operation.
        op: Op,
        /// The code of the refusal or the error.
        why: String,
    },
    /// A call ended without telling whether it took effect. One that never ended counts as such too.
    Unknown {
        /// The operation.
        op: Op,
        /// The code of the error.
        why: String,
    },
    /// The process that wrote the entries so far is gone, and with it every lease; operation numbers start over.
    Restart {
        /// A time by which it was gone.
        at: Timestamp,
    },
}

/// What the jobs of a queue were promised, as far as the invariants need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The queue.
    pub queue: QueueName,
    /// How many attempts a job may use.
    pub cap: u32,
    /// How long a key holds after its job's end.
    pub window: Millis,
    /// How long a job is kept after its end, at least.
    pub keep: Millis,
}

/// What a caller asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Publish a job.
    Publish {
        /// The queue.
        queue: QueueName,
        /// The sender's key.
        key: Option<Key>,
        /// The digest of the payload.
        digest: Digest,
        /// How long it is to wait.
        delay: Millis,
    },
    /// Lease jobs.
    Lease {
        /// The queue.
        queue: QueueName,
        /// For how long.
        duration: Millis,
    },
    /// Settle a delivery.
    Settle {
        /// The job.
        id: JobId,
        /// The token of the delivery.
        token: Token,
        /// What is said of it.
        say: Say,
    },
    /// Keep a lease longer.
    Extend {
        /// The job.
        id: JobId,
        /// The token of the delivery.
        token: Token,
    },
    /// Call a job off.
    Cancel {
        /// The job.
        id: JobId,
    },
    /// End leases that ran out.
    Rescue,
    /// Drop what need not be kept.
    Prune,
}

/// What a worker says of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Say {
    /// Done.
    Ack,
    /// Failed: try again, if an attempt is left.
    Nack,
    /// Failed for good.
    Reject,
    /// Later: this was no attempt.
    Defer,
    /// Received: it will be settled later.
    Receive,
}

impl Say {
    /// Whether it ends the delivery.
    pub fn ends_delivery(self) -> bool {
        self != Self::Receive
    }

    /// Whether it uses up an attempt.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Defer | Self::Receive)
    }

    /// Whether it can end the job.
    pub fn may_end_job(self) -> bool {
        self.counts()
    }
}

/// What a store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To a publish.
    Published {
        /// The job.
        id: JobId,
        /// When it was published first.
        created_at: Timestamp,
        /// Whether it is an earlier publish's job.
        deduplicated: bool,
        /// Whether the payload is that of the first publish.
        matches: bool,
    },
    /// To a lease.
    Leased(Vec<Delivered>),
    /// To a settle.
    Settled {
        /// Where the job stands now.
        state: State,
        /// When it is due again.
        due: Option<Timestamp>,
        /// Whether it had been settled so before.
        repeated: bool,
    },
    /// To an extension.
    Extended {
        /// When the lease ends now.
        until: Timestamp,
    },
    /// To a cancellation.
    Cancelled,
    /// To a rescue: the jobs whose leases it ended.
    Rescued(Vec<JobId>),
    /// To a prune: how many jobs were dropped, and how many stripped.
    Pruned {
        /// Jobs that are gone.
        dropped: u32,
        /// Jobs of which only the key is left.
        stripped: u32,
    },
}

/// One delivery, as the worker saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The job.
    pub id: JobId,
    /// The token that settles it.
    pub token: Token,
    /// The number of the attempt.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// How often the job was deferred.
    pub deferrals: u32,
    /// When the lease ends.
    pub deadline: Timestamp,
    /// The digest of the payload.
    pub digest: Digest,
    /// The sender's key.
    pub key: Option<Key>,
}
