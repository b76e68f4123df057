//! The ledger behind queues that are not Semel's: worked examples, each of which is killed and redelivered in its test.
//!
//! - [`shop`]: the handler. It is the same behind every queue: a [`Job`](semel_ledger::handler::Job) comes in, a
//!   [`Disposition`](semel_ledger::handler::Disposition) goes out.
//! - [`rabbitmq`], [`redis_list`], [`visibility`] (SQS and its like): where the key comes from, and what each disposition
//!   means there.
//!
//! All three redeliver: RabbitMQ when a connection is lost, the list when a worker starts again, SQS when the visibility
//! time-out has passed. None of them can know whether the effect has happened. The ledger does.

pub mod rabbitmq;
pub mod redis_list;
pub mod shop;
pub mod visibility;

use std::time::Duration;

/// How often a job is tried before it goes to the dead letters.
pub const MAX_ATTEMPTS: u32 = 5;

/// How long to wait after so many attempts have failed.
pub fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(1) * 2_u32.saturating_pow(attempts.min(8))
}
