//! What a handler says about a delivery.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Effect, Receipt};

/// The longest reason that the server keeps.
const REASON_MAX: usize = 500;

/// The largest result that the server keeps, in bytes.
const RESULT_MAX: usize = 64 * 1024;

/// What a handler says about a delivery. `Result<T, E>` is one, too: `Ok` is what `T` says, with `()` for done, and `Err` is a
/// failure that may be tried again.
#[derive(Debug, Clone)]
pub struct Outcome(pub(crate) Said);

#[derive(Debug, Clone)]
pub(crate) enum Said {
    Done { result: Option<Box<RawValue>>, effect: Option<Receipt> },
    Later { wait: Duration, scope: Option<Scope>, reason: Option<String> },
    Failed { reason: String, retryable: bool, effect: Option<Receipt> },
}

/// What waits when a handler asks for time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// The whole queue: whatever the work needs has no room.
    Queue,
    /// Only this job.
    Job,
}

impl Outcome {
    /// The work is done.
    pub fn done() -> Self {
        Self(Said::Done { result: None, effect: None })
    }

    /// The work is done, with a result that is kept with the job. One that is larger than 64 KiB of JSON is left out: the
    /// work is done all the same, and doing it again would make it no smaller. The same goes for one that is no JSON.
    pub fn done_with(result: &(impl Serialize + ?Sized)) -> Self {
        Self::done_with_raw(serde_json::value::to_raw_value(result).ok())
    }

    pub(crate) fn done_with_raw(result: Option<Box<RawValue>>) -> Self {
        let result = result.filter(|result| result.get().len() <= RESULT_MAX);
        Self(Said::Done { result, effect: None })
    }

    /// Not now: this job waits, and no attempt is burned. [`Outcome::scope`] makes the queue wait.
    pub fn defer(wait: Duration) -> Self {
        Self(Said::Later { wait, scope: Some(Scope::Job), reason: None })
    }

    /// The attempt failed; another may succeed.
    pub fn fail(reason: impl fmt::Display) -> Self {
        Self(Said::Failed { reason: short(&reason), retryable: true, effect: None })
    }

    /// The job failed, and no other attempt can succeed: it goes to the dead letters.
    pub fn reject(reason: impl fmt::Display) -> Self {
        Self(Said::Failed { reason: short(&reason), retryable: false, effect: None })
    }

    /// The receipt: what became of the effect, and the key it is recorded under. A deferral has none.
    #[must_use]
    pub fn receipt(mut self, outcome: Effect, key: Option<&str>) -> Self {
        if let Said::Done { effect, .. } | Said::Failed { effect, .. } = &mut self.0 {
            *effect = Some(Receipt { outcome, key: key.map(ToOwned::to_owned) });
        }
        self
    }

    /// What waits, if this is a deferral.
    #[must_use]
    pub fn scope(mut self, wanted: Scope) -> Self {
        if let Said::Later { scope, .. } = &mut self.0 {
            *scope = Some(wanted);
        }
        self
    }

    /// What waits is for the queue's own setting to say, if this is a deferral.
    #[must_use]
    pub fn scope_of_the_queue(mut self) -> Self {
        if let Said::Later { scope, .. } = &mut self.0 {
            *scope = None;
        }
        self
    }

    /// Why, if this is a deferral.
    #[must_use]
    pub fn because(mut self, why: impl fmt::Display) -> Self {
        if let Said::Later { reason, .. } = &mut self.0 {
            *reason = Some(short(&why));
        }
        self
    }
}

/// A reason as the server takes it. One that is cut is better than a settle that is refused.
fn short(reason: &impl fmt::Display) -> String {
    reason.to_string().chars().take(REASON_MAX).collect()
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::done()
    }
}

impl<T: Into<Self>, E: fmt::Display> From<Result<T, E>> for Outcome {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Self::fail, Into::into)
    }
}

/// A settle as the API takes it, without the delivery it is about.
#[cfg(feature = "worker")]
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Wire<'a> {
    Ack {
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        effect: Option<&'a Receipt>,
    },
    Nack {
        reason: &'a str,
        retryable: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        effect: Option<&'a Receipt>,
    },
    Defer {
        retry_after: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Extend {
        seconds: f64,
    },
}

#[cfg(feature = "worker")]
impl<'a> Wire<'a> {
    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        match &outcome.0 {
            Said::Done { result, effect } => Self::Ack { result: result.as_deref(), effect: effect.as_ref() },
            Said::Failed { reason, retryable, effect } => {
                Self::Nack { reason, retryable: *retryable, effect: effect.as_ref() }
            }
            Said::Later { wait, scope, reason } => {
                Self::Defer { retry_after: wait.as_secs_f64(), scope: *scope, reason: reason.as_deref() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wire(outcome: impl Into<Outcome>) -> serde_json::Value {
        serde_json::to_value(Wire::of(&outcome.into())).unwrap()
    }

    #[test]
    fn outcomes_are_written_as_the_api_reads_them() {
        assert_eq!(wire(()), json!({ "action": "ack" }));
        let receipt = Outcome::done_with(&3).receipt(Effect::Replayed, Some("k"));
        let effect = json!({ "outcome": "replayed", "key": "k" });
        assert_eq!(wire(receipt), json!({ "action": "ack", "result": 3, "effect": effect }));
        let failed: Result<(), &str> = Err("no");
        assert_eq!(wire(failed), json!({ "action": "nack", "reason": "no", "retryable": true }));
        let later = Outcome::defer(Duration::from_millis(1500)).scope(Scope::Queue).because("busy");
        let expected = json!({ "action": "defer", "retryAfter": 1.5, "scope": "queue", "reason": "busy" });
        assert_eq!(wire(later), expected);
    }

    #[test]
    fn a_result_that_is_too_large_is_left_out_and_the_work_is_done() {
        let text = |bytes: usize| "x".repeat(bytes - 2);
        assert!(wire(Outcome::done_with(&text(RESULT_MAX)))["result"].is_string());
        assert_eq!(wire(Outcome::done_with(&text(RESULT_MAX + 1))), json!({ "action": "ack" }));
        let no_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(wire(Outcome::done_with(&no_json)), json!({ "action": "ack" }));
    }

    #[test]
    fn a_long_reason_is_cut_and_not_refused() {
        let Said::Failed { reason, .. } = Outcome::reject("ä".repeat(501)).0 else { panic!("a failure") };
        assert_eq!(reason.chars().count(), 500);
    }
}
