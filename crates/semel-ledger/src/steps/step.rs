//! One step.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::compensation::{Begun, Undo};
use super::{Halt, Steps};
use crate::intent::{Intent, replayed};
use crate::store::{State, Store};
use crate::{Call, Error, Failure, Verdict};

/// A step about to be run.
#[must_use = "nothing happens before `run`"]
pub struct StepRun<'a, S, E, U = NoUndo> {
    steps: &'a Steps<S, E>,
    name: &'a str,
    undo: U,
}

/// How a step is undone.
pub trait Compensate<T, E> {
    /// What to do about a step that was begun, if anything.
    fn undo(self, call: Call) -> Option<Undo<E>>;
}

/// A step that needs no compensation.
#[derive(Debug, Clone, Copy)]
pub struct NoUndo;

impl<T, E> Compensate<T, E> for NoUndo {
    fn undo(self, _: Call) -> Option<Undo<E>> {
        None
    }
}

/// A step that a closure undoes.
#[derive(Debug, Clone, Copy)]
pub struct Undoing<F>(F);

impl<T, E, F, Fut> Compensate<T, E> for Undoing<F>
where
    T: DeserializeOwned + Send + 'static,
    F: FnOnce(Begun<T>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), Failure<E>>> + Send + 'static,
{
    fn undo(self, call: Call) -> Option<Undo<E>> {
        Some(Undo::new(call, self.0))
    }
}

impl<'a, S: Store, E> StepRun<'a, S, E> {
    pub(super) fn new(steps: &'a Steps<S, E>, name: &'a str) -> Self {
        Self { steps, name, undo: NoUndo }
    }

    /// How to undo the step, should the job be given up. It gets the step's result, or none if the step was begun and nobody
    /// knows how far it came: then it must also be right if nothing happened.
    pub fn undo<F>(self, undo: F) -> StepRun<'a, S, E, Undoing<F>> {
        StepRun { steps: self.steps, name: self.name, undo: Undoing(undo) }
    }
}

impl<S: Store, E, U> StepRun<'_, S, E, U> {
    /// Runs the step as an intent: see [`Ledger::intent`](crate::Ledger::intent).
    pub async fn run<T, F, Fut>(self, effect: F) -> Result<T, Halt<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        U: Compensate<T, E>,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
    {
        let ledger = self.steps.ledger.clone();
        self.with(|call| async move { ledger.intent(&call).run(effect).await }).await
    }

    /// Runs the step at most once: see [`Ledger::at_most_once`](crate::Ledger::at_most_once).
    pub async fn run_at_most_once<T, F, Fut>(self, effect: F) -> Result<T, Halt<E>>
    where
        T: Serialize + DeserializeOwned,
        U: Compensate<T, E>,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
    {
        let ledger = self.steps.ledger.clone();
        self.with(|call| async move { ledger.at_most_once(&call).run(effect).await }).await
    }

    /// Runs the step in any mode: `mode` gets the step's call and runs the effect with it, in a transaction for example.
    pub async fn with<T, F, Fut>(self, mode: F) -> Result<T, Halt<E>>
    where
        T: DeserializeOwned,
        U: Compensate<T, E>,
        F: FnOnce(Call) -> Fut,
        Fut: Future<Output = Result<Verdict<T>, Error<E>>>,
    {
        let steps = self.steps;
        let call = steps.call.step(self.name).map_err(Error::Key)?;
        if let Some(undo) = self.undo.undo(call.clone()) {
            steps.reached(undo);
        }
        if let Some(reason) = &steps.shared.given_up {
            return done_before(steps, &call).await?.ok_or_else(|| Halt::give_up(reason));
        }
        match mode(call).await? {
            Verdict::Applied(result) | Verdict::Replayed(result) => Ok(result),
            Verdict::InProgress { until } => Err(Halt::InProgress { until }),
            Verdict::OutcomeUnknown { since } => Err(Halt::OutcomeUnknown { since }),
        }
    }
}

/// The step's result, if it is finished. Once the job is given up, nothing else counts.
async fn done_before<S: Store, T: DeserializeOwned, E>(
    steps: &Steps<S, E>,
    call: &Call,
) -> Result<Option<T>, Error<E>> {
    let ledger = &steps.ledger;
    let found = ledger.patient(ledger.inner.store.lookup(&[ledger.scope_of(call)])).await?;
    match found.into_iter().next().flatten().map(|record| record.state) {
        Some(State::Done(done)) => replayed(done.result.as_deref()).map(Verdict::result),
        Some(State::Claimed { .. }) | None => Ok(None),
    }
}

impl<S, E, U> fmt::Debug for StepRun<'_, S, E, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepRun").field("name", &self.name).finish_non_exhaustive()
    }
}
