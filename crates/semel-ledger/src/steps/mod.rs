//! Steps: a job that does several things, each of them once, and can undo what it did.

mod compensation;
mod halt;
mod step;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::compensation::{Begun, Undo};
use self::compensation::{compensate, give_up, given_up, reason_in};
pub use self::halt::Halt;
pub use self::step::{Compensate, NoUndo, StepRun, Undoing};
use crate::attempt::{Attempt, Opened, open};
use crate::intent::replayed;
use crate::store::{Expired, Release, Store};
use crate::{Call, Error, Ledger, Verdict};

/// A job of several steps about to be run; see [`Ledger::steps`].
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct StepsRun<'a, S> {
    ledger: &'a Ledger<S>,
    call: &'a Call,
}

/// What a job does its steps with. Clones are the same.
pub struct Steps<S, E> {
    ledger: Ledger<S>,
    call: Call,
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    /// Of the steps that were reached, in order.
    undos: Mutex<Vec<Undo<E>>>,
    /// Why the job was given up in an earlier delivery: nothing new is begun, what was done is undone.
    given_up: Option<String>,
}

impl<S: Store> Ledger<S> {
    /// For a job that does several things. Each step has an entry of its own, in the mode that suits it: a step that is
    /// finished returns its result when the job is delivered again, and does not run.
    ///
    /// A step that fails ends the delivery, and the next one goes on from there. When the job is given up
    /// ([`Halt::give_up`]), what its steps did is undone in reverse order, each compensation itself once, over as many
    /// deliveries as it takes; the verdict is then [`Error::Compensated`].
    ///
    /// ```
    /// use semel_ledger::{Begun, Call, Error, Failure, Halt, Ledger, Memory, Steps, store::Store};
    ///
    /// async fn order<S: Store>(steps: Steps<S, String>) -> Result<String, Halt<String>> {
    ///     let hold: String = steps
    ///         .step("reserve")
    ///         .undo(|begun: Begun<String>| async move {
    ///             println!("release {:?}", begun.result);
    ///             Ok(())
    ///         })
    ///         .run(|_| async { Ok("hold-7".to_owned()) })
    ///         .await?;
    ///     let charge: Result<String, _> = steps
    ///         .step("charge")
    ///         .run(|intent| async move { Err(Failure::not_applied(format!("{} declined", intent.downstream_key()))) })
    ///         .await;
    ///     match charge {
    ///         Ok(charge) => Ok(format!("{hold}, {charge}")),
    ///         Err(Halt::Failed(Error::Effect(reason))) => Err(Halt::give_up(reason)),
    ///         Err(other) => Err(other),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ledger = Ledger::builder(Memory::new(), "orders").build()?;
    /// let call = Call::new("order-9482")?;
    /// let ended = ledger.steps(&call).run(order).await;
    /// assert!(matches!(ended, Err(Error::Compensated { .. })));
    /// # Ok(()) }
    /// ```
    pub fn steps<'a>(&'a self, call: &'a Call) -> StepsRun<'a, S> {
        StepsRun { ledger: self, call }
    }
}

impl<S: Store> StepsRun<'_, S> {
    /// Runs the job. It must reach its steps in the same order every time, as far as it comes.
    pub async fn run<T, E, F, Fut>(self, job: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Send + 'static,
        F: FnOnce(Steps<S, E>) -> Fut,
        Fut: Future<Output = Result<T, Halt<E>>>,
    {
        let scope = self.ledger.scope_of(self.call);
        let mut recovered = false;
        let verdict = self.pursue(job, &mut recovered).await;
        self.ledger.told(&scope, recovered, verdict)
    }

    async fn pursue<T, E, F, Fut>(&self, job: F, recovered: &mut bool) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Send + 'static,
        F: FnOnce(Steps<S, E>) -> Fut,
        Fut: Future<Output = Result<T, Halt<E>>>,
    {
        let (ledger, call) = (self.ledger, self.call);
        let expired = Expired::TakeOver { window: None };
        let mut attempt = match open(ledger, ledger.scope_of(call), call, expired).await? {
            Opened::Held(attempt) => attempt,
            Opened::Done(result) => return finished(result.as_deref()),
            Opened::Busy(until) => return Ok(Verdict::InProgress { until }),
            Opened::Spent(since) => return Ok(Verdict::OutcomeUnknown { since }),
        };
        *recovered = attempt.grant.recovering;
        let reason = if attempt.grant.recovering { given_up(ledger, call).await? } else { None };
        let steps = Steps::new(ledger, call, reason);
        let ended = attempt.run(job(steps.clone())).await?;
        let before = steps.shared.given_up.clone();
        match (ended, before) {
            (_, Some(reason)) => compensate(&steps, attempt, reason).await,
            (Ok(result), None) => {
                attempt.complete(ledger, &result).await?;
                Ok(Verdict::Applied(result))
            }
            (Err(halt), None) => halted(&steps, attempt, halt).await,
        }
    }
}

/// The delivery ends before the job does.
async fn halted<S: Store, T, E: Send + 'static>(
    steps: &Steps<S, E>,
    attempt: Box<Attempt>,
    halt: Halt<E>,
) -> Result<Verdict<T>, Error<E>> {
    let verdict = match halt {
        Halt::GiveUp { reason } => match give_up(steps, &reason).await? {
            None => return compensate(steps, attempt, reason).await,
            Some(until) => Ok(Verdict::InProgress { until }),
        },
        Halt::Failed(error) => Err(error),
        Halt::InProgress { until } => Ok(Verdict::InProgress { until }),
        Halt::OutcomeUnknown { since } => Ok(Verdict::OutcomeUnknown { since }),
    };
    attempt.release(&steps.ledger, Release::Recover).await;
    verdict
}

/// The verdict of a job that has come to its end before, one way or the other.
fn finished<T: DeserializeOwned, E>(result: Option<&str>) -> Result<Verdict<T>, Error<E>> {
    match result.and_then(reason_in) {
        Some(reason) => Err(Error::Compensated { reason }),
        None => replayed(result),
    }
}

impl<S: Store, E> Steps<S, E> {
    fn new(ledger: &Ledger<S>, call: &Call, given_up: Option<String>) -> Self {
        let shared = Shared { undos: Mutex::new(Vec::new()), given_up };
        Self { ledger: ledger.clone(), call: call.clone(), shared: Arc::new(shared) }
    }

    /// A step with this name: letters, digits, `_`, `-` and `.`, another for each step of the job.
    pub fn step<'a>(&'a self, name: &'a str) -> StepRun<'a, S, E> {
        StepRun::new(self, name)
    }

    /// The ledger, for steps in its other modes.
    pub fn ledger(&self) -> &Ledger<S> {
        &self.ledger
    }

    fn reached(&self, undo: Undo<E>) {
        self.shared.undos.lock().unwrap_or_else(PoisonError::into_inner).push(undo);
    }

    fn undos(&self) -> Vec<Undo<E>> {
        std::mem::take(&mut *self.shared.undos.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S, E> Clone for Steps<S, E> {
    fn clone(&self) -> Self {
        Self { ledger: self.ledger.clone(), call: self.call.clone(), shared: self.shared.clone() }
    }
}

impl<S, E> fmt::Debug for Steps<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("call", &self.call).finish_non_exhaustive()
    }
}
