//! The wrapper around a handler: from a job of any queue to a verdict, and from the verdict to what the queue is told.
//!
//! The queue brings a [`Job`], the handler chooses a mode, and a [`Disposition`] comes back:
//!
//! ```
//! use semel_ledger::handler::{Disposition, Handler, Job, Receipt};
//! use semel_ledger::{Failure, Ledger, Memory};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ledger = Ledger::builder(Memory::new(), "billing").build()?;
//! let job = Job { key: Some("order-9482"), token: Some(1), payload: br#"{"amount": 1000}"# };
//!
//! let told = Handler::new()
//!     .handle(&job, |call| {
//!         let ledger = ledger.clone();
//!         async move { ledger.intent(&call).run(|_| async { Ok::<_, Failure<std::io::Error>>("ch_1".to_owned()) }).await }
//!     })
//!     .await;
//! assert_eq!(told, Disposition::Ack { receipt: Receipt::Applied, result: Some("\"ch_1\"".to_owned()) });
//! # Ok(()) }
//! ```

use std::fmt::Display;

use serde::Serialize;

use crate::time::Until;
use crate::{Call, Error, Fingerprint, Verdict};

/// One delivery of a job, as its queue has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job<'a> {
    /// The idempotency key: a header, an attribute, a field of the payload. Not the id of the delivery.
    pub key: Option<&'a str>,
    /// The queue's fencing token, if it has one.
    pub token: Option<u64>,
    /// The job's content.
    pub payload: &'a [u8],
}

/// What the queue is told about the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It happened in this delivery.
    Applied,
    /// It had happened before.
    Replayed,
    /// Nothing is known to have happened.
    None,
}

impl Receipt {
    /// As the header `Semel-Effect` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Replayed => "replayed",
            Self::None => "none",
        }
    }
}

/// What to do with a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the queue is waiting for it"]
pub enum Disposition {
    /// Acknowledge it: the job is done.
    Ack {
        /// What to report with it.
        receipt: Receipt,
        /// The first run's result, as JSON.
        result: Option<String>,
    },
    /// Deliver it again later, and do not count this attempt: another delivery is at it.
    Defer {
        /// Not before `remaining` has passed.
        until: Until,
    },
    /// It failed.
    Fail {
        /// For whoever looks at the dead letters.
        error: String,
        /// Whether to try again, or to put it with the dead letters at once.
        retryable: bool,
    },
}

/// How a job becomes a call, and a verdict a disposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "it handles nothing by itself"]
pub struct Handler {
    compare_input: bool,
    acknowledge_unknown: bool,
}

impl Handler {
    /// Payloads are not compared, and unknown outcomes go to the dead letters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a fingerprint of the payload, which must be JSON: the same key with another payload is a collision.
    pub fn compare_input(mut self) -> Self {
        self.compare_input = true;
        self
    }

    /// Acknowledges a job whose outcome is unknown, with the receipt `none`, instead of failing it. For at-most-once
    /// effects that nobody would look for among the dead letters.
    pub fn acknowledge_unknown(mut self) -> Self {
        self.acknowledge_unknown = true;
        self
    }

    /// The call of a job, if it has a proper key.
    pub fn call(&self, job: &Job<'_>) -> Result<Call, String> {
        let call = Call::new(job.key.unwrap_or_default()).map_err(|error| error.to_string())?;
        let call = job.token.into_iter().fold(call, Call::token);
        if !self.compare_input {
            return Ok(call);
        }
        let input =
            Fingerprint::of_json(job.payload).map_err(|error| format!("the payload is not JSON: {error}"))?;
        Ok(call.fingerprint(input))
    }

    /// Runs a handler on a job. `work` gets the job's call and runs the effect in the mode it chooses.
    pub async fn handle<T, E, F, Fut>(&self, job: &Job<'_>, work: F) -> Disposition
    where
        T: Serialize,
        E: Display,
        F: FnOnce(Call) -> Fut,
        Fut: Future<Output = Result<Verdict<T>, Error<E>>>,
    {
        match self.call(job) {
            Ok(call) => self.disposition(work(call).await),
            // Without a key every delivery would be a new operation. No retry brings one.
            Err(error) => Disposition::Fail { error, retryable: false },
        }
    }

    /// What a verdict means to the queue.
    pub fn disposition<T: Serialize, E: Display>(
        &self,
        verdict: Result<Verdict<T>, Error<E>>,
    ) -> Disposition {
        match verdict {
            Ok(Verdict::Applied(result)) => acknowledged(Receipt::Applied, &result),
            Ok(Verdict::Replayed(result)) => acknowledged(Receipt::Replayed, &result),
            Ok(Verdict::InProgress { until }) => Disposition::Defer { until },
            Ok(Verdict::OutcomeUnknown { .. }) if self.acknowledge_unknown => {
                Disposition::Ack { receipt: Receipt::None, result: None }
            }
            Ok(Verdict::OutcomeUnknown { since }) => {
                let error = format!(
                    "the effect was attempted at {since} and nobody knows whether it happened: find out, then resolve the entry"
                );
                Disposition::Fail { error, retryable: false }
            }
            Err(error) => Disposition::Fail { error: error.to_string(), retryable: error.retryable() },
        }
    }
}

/// The effect has happened and is recorded: a result that does not serialise is no reason to run it again.
fn acknowledged<T: Serialize>(receipt: Receipt, result: &T) -> Disposition {
    Disposition::Ack { receipt, result: serde_json::to_string(result).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Moment, StoreError, StoreErrorKind};

    fn told(verdict: Result<Verdict<u8>, Error<String>>) -> Disposition {
        Handler::new().disposition(verdict)
    }

    #[test]
    fn a_job_without_a_proper_key_is_no_retry() {
        let job = Job { key: None, token: None, payload: b"{}" };
        assert!(Handler::new().call(&job).unwrap_err().contains("the key is missing"));
        let job = Job { key: Some("a\u{0}b"), ..job };
        assert!(Handler::new().call(&job).unwrap_err().contains("control character"));
    }

    #[test]
    fn verdicts_become_dispositions() {
        let result = Some("7".to_owned());
        let ack = |receipt| Disposition::Ack { receipt, result: result.clone() };
        assert_eq!(told(Ok(Verdict::Applied(7))), ack(Receipt::Applied));
        assert_eq!(told(Ok(Verdict::Replayed(7))), ack(Receipt::Replayed));
        let until = Until::seen(Moment::from_millis(9), Moment::from_millis(4));
        assert_eq!(told(Ok(Verdict::InProgress { until })), Disposition::Defer { until });
    }

    #[test]
    fn what_nobody_knows_is_for_a_person_unless_it_was_chosen() {
        let unknown =
            || Ok::<_, Error<String>>(Verdict::<u8>::OutcomeUnknown { since: Moment::from_millis(1) });
        assert!(matches!(told(unknown()), Disposition::Fail { retryable: false, .. }));
        let acknowledged = Handler::new().acknowledge_unknown().disposition(unknown());
        assert_eq!(acknowledged, Disposition::Ack { receipt: Receipt::None, result: None });
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let down = StoreError::new(StoreErrorKind::Unavailable, "down");
        assert!(matches!(told(Err(Error::Store(down))), Disposition::Fail { retryable: true, .. }));
        let collision = Err(Error::Collision { fields: vec!["amount".to_owned()] });
        assert!(matches!(told(collision), Disposition::Fail { retryable: false, .. }));
    }

    #[test]
    fn the_payload_is_compared_where_it_is_wished() {
        let job = Job { key: Some("k"), token: None, payload: b"no json" };
        assert!(Handler::new().call(&job).is_ok());
        assert!(Handler::new().compare_input().call(&job).unwrap_err().contains("not JSON"));
    }
}
