//! One thing that happened, as the event stream tells it.

use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident, $name:literal;)*) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in the event stream.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// A job was published.
    Published, "job.published";
    /// A publish was answered with an earlier job.
    Deduplicated, "job.deduplicated";
    /// The same, but with another payload.
    Collision, "job.collision";
    /// A job went out to a worker.
    Leased, "job.leased";
    /// A worker has it and will settle later.
    Received, "job.received";
    /// A job is done.
    Completed, "job.completed";
    /// An attempt failed, another will follow.
    Retrying, "job.retrying";
    /// A worker asked for time.
    Deferred, "job.deferred";
    /// A lease ran out.
    Expired, "job.expired";
    /// A job became a dead letter.
    Dead, "job.dead";
    /// A job was called off.
    Cancelled, "job.cancelled";
    /// A dead letter got another life.
    Replayed, "job.replayed";
    /// A dead letter was taken out.
    Purged, "job.purged";
    /// A key was released.
    KeyReleased, "key.released";
    /// A queue was made, changed, paused, resumed or taken away.
    QueueChanged, "queue.changed";
    /// A key or an effect comes back more often than its queue allows.
    PersistentDuplicate, "duplicate.persistent";
    /// A time-out is shorter than handlers take.
    LeaseAdvice, "advice.lease";
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
