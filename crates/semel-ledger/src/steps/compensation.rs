//! Undoing what a job's steps did, in reverse order, each compensation itself once.

use std::fmt;
use std::pin::Pin;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::Steps;
use crate::attempt::{Attempt, Opened, open};
use crate::intent::Intent;
use crate::key::Step;
use crate::store::{Expired, Release, State, Store};
use crate::time::Until;
use crate::{Call, Error, Failure, Ledger, Verdict};

/// The entry that says that a job was given up, and why.
const GIVEN_UP: &str = "given-up";

/// The result of a job that was compensated has this one member.
const COMPENSATED: &str = "semel_compensated";

const ANY_TIME: Expired = Expired::TakeOver { window: None };

/// A step that is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun<T> {
    /// What it returned; none, if it was begun and nobody knows how far it came.
    pub result: Option<T>,
    /// The downstream key that the step was done with.
    pub step_key: String,
    /// The intent of the compensation, with a downstream key of its own.
    pub intent: Intent,
}

type Undoing<E> = Pin<Box<dyn Future<Output = Result<(), Failure<E>>> + Send>>;

/// A compensation that knows the step's result.
type Ready<E> = Box<dyn FnOnce(String, Intent) -> Undoing<E> + Send>;

type Prepare<E> = Box<dyn FnOnce(Option<&str>) -> Result<Ready<E>, serde_json::Error> + Send>;

/// How to undo a step, its result still to be looked up.
pub struct Undo<E> {
    call: Call,
    prepare: Prepare<E>,
}

impl<E> Undo<E> {
    pub(super) fn new<T, F, Fut>(call: Call, undo: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: FnOnce(Begun<T>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Failure<E>>> + Send + 'static,
    {
        let prepare = move |result: Option<&str>| {
            let result: Option<T> = result.map(serde_json::from_str).transpose()?;
            let ready =
                move |step_key, intent| Box::pin(undo(Begun { result, step_key, intent })) as Undoing<E>;
            Ok(Box::new(ready) as Ready<E>)
        };
        Self { call, prepare: Box::new(prepare) }
    }
}

impl<E> fmt::Debug for Undo<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo").field("call", &self.call).finish_non_exhaustive()
    }
}

fn marker(call: &Call) -> Call {
    call.at(Step::whole().own(GIVEN_UP))
}

/// Why the job was given up in an earlier delivery, if it was.
pub(super) async fn given_up<S: Store, E>(
    ledger: &Ledger<S>,
    call: &Call,
) -> Result<Option<String>, Error<E>> {
    let scope = ledger.scope_of(&marker(call));
    let found = ledger.patient(ledger.inner.store.lookup(&[scope])).await?;
    match found.into_iter().next().flatten().map(|record| record.state) {
        Some(State::Done(done)) => {
            serde_json::from_str(done.result.as_deref().unwrap_or("null")).map_err(Error::read)
        }
        Some(State::Claimed { .. }) | None => Ok(None),
    }
}

/// Writes down that the job is given up, before anything is undone: from then on every delivery undoes.
pub(super) async fn give_up<S: Store, E>(
    steps: &Steps<S, E>,
    reason: &str,
) -> Result<Option<Until>, Error<E>> {
    let call = marker(&steps.call);
    match open(&steps.ledger, steps.ledger.scope_of(&call), &call, ANY_TIME).await? {
        Opened::Held(attempt) => attempt.complete(&steps.ledger, &reason).await.map(|()| None),
        Opened::Busy(until) => Ok(Some(until)),
        Opened::Done(_) | Opened::Spent(_) => Ok(None),
    }
}

/// Undoes all steps that were reached, last one first, and closes the job.
pub(super) async fn compensate<S: Store, T, E: Send + 'static>(
    steps: &Steps<S, E>,
    mut attempt: Box<Attempt>,
    reason: String,
) -> Result<Verdict<T>, Error<E>> {
    for undo in steps.undos().into_iter().rev() {
        let halted = match attempt.run(undone(steps, undo)).await? {
            Ok(Verdict::Applied(()) | Verdict::Replayed(())) => continue,
            Ok(Verdict::InProgress { until }) => Ok(Verdict::InProgress { until }),
            Ok(Verdict::OutcomeUnknown { since }) => Ok(Verdict::OutcomeUnknown { since }),
            Err(error) => Err(error),
        };
        attempt.release(&steps.ledger, Release::Recover).await;
        return halted;
    }
    attempt.complete(&steps.ledger, &json!({ COMPENSATED: reason })).await?;
    Err(Error::Compensated { reason })
}

/// The reason in the result of a job that was compensated.
pub(super) fn reason_in(result: &str) -> Option<String> {
    // Results may be large; only this one begins so.
    if !result.starts_with("{\"semel_compensated\":") {
        return None;
    }
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    result[COMPENSATED].as_str().map(str::to_owned)
}

/// Undoes one step, if it was begun.
async fn undone<S: Store, E: Send + 'static>(
    steps: &Steps<S, E>,
    undo: Undo<E>,
) -> Result<Verdict<()>, Error<E>> {
    let (ledger, scope) = (&steps.ledger, steps.ledger.scope_of(&undo.call));
    let step_key = scope.downstream_key();
    let found = ledger.patient(ledger.inner.store.lookup(std::slice::from_ref(&scope))).await?;
    let mut held = None;
    let result = match found.into_iter().next().flatten().map(|record| record.state) {
        None => return Ok(Verdict::Replayed(())),
        Some(State::Done(done)) => Some(done.result.unwrap_or_else(|| "null".to_owned())),
        // Whoever began it may have stalled, and must not finish it after it was undone.
        Some(State::Claimed { .. }) => match open(ledger, scope, &undo.call, ANY_TIME).await? {
            Opened::Held(attempt) => {
                held = Some(attempt);
                None
            }
            Opened::Done(result) => Some(result.unwrap_or_else(|| "null".to_owned())),
            Opened::Busy(until) => return Ok(Verdict::InProgress { until }),
            Opened::Spent(since) => return Ok(Verdict::OutcomeUnknown { since }),
        },
    };
    let call = undo.call.at(undo.call.step.own("undo"));
    let ready = (undo.prepare)(result.as_deref()).map_err(Error::read)?;
    let verdict = ledger.intent(&call).run(|intent| ready(step_key, intent)).await;
    if let Some(attempt) = held {
        attempt.release(ledger, Release::Recover).await;
    }
    verdict
}
