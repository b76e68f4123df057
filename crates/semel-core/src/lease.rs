//! Leasing: a worker takes jobs for a while, with a token that only it has.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Token};
use crate::job::JobSpec;
use crate::name::QueueName;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// Most jobs one lease call takes.
pub const LEASE_BATCH_MAX: u32 = 256;
/// Shortest and longest lease a caller may ask for: under a second no network round trip is safe, and past twelve
/// hours a dead worker would hold its jobs for most of a day.
pub const LEASE_RANGE: std::ops::RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_hours(12);

/// A wish for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    queue: QueueName,
    max: u32,
    duration: Option<Millis>,
}

impl LeaseRequest {
    /// Asks for up to `max` jobs of a queue, for `duration` or what the queue says.
    pub fn new(queue: QueueName, max: u32, duration: Option<Millis>) -> Result<Self, Violations> {
        let mut wrong = Violations::default();
        wrong.require((1..=LEASE_BATCH_MAX).contains(&max), "max", || {
            format!("must be 1 to {LEASE_BATCH_MAX}, got {max}")
        });
        if let Some(asked) = duration {
            check_duration(&mut wrong, "leaseSeconds", asked);
        }
        wrong.into_result()?;
        Ok(Self { queue, max, duration })
    }

    /// The queue.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// How many jobs at most.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// How long, if the caller says.
    pub fn duration(&self) -> Option<Millis> {
        self.duration
    }
}

/// A wish to keep a lease longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extend {
    /// The job.
    pub id: JobId,
    /// The delivery's token; without one the call applies to the current delivery.
    pub token: Option<Token>,
    duration: Millis,
}

impl Extend {
    /// Asks that the lease end `duration` from now.
    pub fn new(id: JobId, token: Option<Token>, duration: Millis) -> Result<Self, Violations> {
        let mut wrong = Violations::default();
        check_duration(&mut wrong, "seconds", duration);
        wrong.into_result()?;
        Ok(Self { id, token, duration })
    }

    /// How long from now.
    pub fn duration(&self) -> Millis {
        self.duration
    }
}

fn check_duration(wrong: &mut Violations, field: &str, asked: Millis) {
    wrong.require(LEASE_RANGE.contains(&asked), field, || {
        format!("must be {} to {}, got {asked}", LEASE_RANGE.start(), LEASE_RANGE.end())
    });
}

/// A job on its way to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The job's id.
    pub id: JobId,
    /// What was published.
    pub spec: Arc<JobSpec>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// How often the job was deferred.
    pub deferrals: u32,
    /// The token that settles this delivery.
    pub token: Token,
    /// When the lease ends.
    pub deadline: Timestamp,
    /// Whether this delivery is the single probe of a held queue or an open breaker.
    pub probe: bool,
}

/// One delivery that the store has out: who may settle it and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The token that settles it.
    pub token: Token,
    /// When the job was leased.
    pub since: Timestamp,
    /// When it ends.
    pub deadline: Timestamp,
    /// Whether the worker has said that it received the job.
    pub received: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_asks_for_a_sane_number_and_time() {
        let queue = QueueName::try_from("q").unwrap();
        let ask = |max, secs| LeaseRequest::new(queue.clone(), max, Some(Millis::from_secs(secs)));
        assert!(ask(1, 1).is_ok() && ask(256, 43_200).is_ok());
        assert!(ask(0, 30).is_err() && ask(257, 30).is_err() && ask(1_000_000, 30).is_err());
        assert!(ask(1, 0).is_err() && ask(1, 3_155_760_000).is_err());
        let both = ask(0, 0).unwrap_err();
        assert_eq!(both.iter().count(), 2, "every offending field is named: {both}");
    }
}
