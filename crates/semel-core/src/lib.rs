//! The domain of Semel: what a job is, and every decision made about it.
//!
//! Nothing here waits, reads a clock or touches a disk. Time comes in as a value, decisions go out as values, and
//! a [store](https://docs.rs/semel-store) performs them. That is what lets one set of rules hold on every backend.

pub mod breaker;
pub mod collision;
pub mod gate;
pub mod group;
pub mod hold;
pub mod ids;
pub mod job;
pub mod key;
pub mod lease;
pub mod lifecycle;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod publish;
pub mod queue;
pub mod rate;
pub mod records;
pub mod refusal;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod settle;
pub mod time;
pub mod violation;
pub mod window;

pub use ids::{IdGenerator, JobId, Token};
pub use job::{Job, JobSpec, Progress};
pub use key::{Fingerprint, Key};
pub use lifecycle::State;
pub use name::{Group, QueueName};
pub use outcome::Outcome;
pub use payload::Payload;
pub use queue::QueueConfig;
pub use refusal::Refusal;
pub use time::{Millis, Timestamp};
pub use violation::{Violation, Violations};
