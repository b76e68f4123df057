//! Intent: written down before a call to a service outside, so that a retry repeats *that* call and not another.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{Attempt, Opened, open};
use crate::key::Scope;
use crate::store::{Expired, Release, Store};
use crate::time::Moment;
use crate::{Call, Error, Failure, Ledger, Verdict};

/// What an effect is told about the intent behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    downstream_key: String,
    token: u64,
    recovering: Option<Moment>,
}

impl Intent {
    /// The key to hand to the service: the same on every attempt, derived from consumer, key and step.
    pub fn downstream_key(&self) -> &str {
        &self.downstream_key
    }

    /// A fencing token for services that take one: each attempt at this entry has a higher one.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// When the effect was first attempted, if an earlier attempt did not come to an end.
    pub fn recovering(&self) -> Option<Moment> {
        self.recovering
    }

    fn of(attempt: &Attempt) -> Self {
        Self {
            downstream_key: attempt.scope.downstream_key(),
            token: attempt.grant.token,
            recovering: attempt.grant.recovering.then_some(attempt.grant.since),
        }
    }
}

/// What a service says when it is asked about an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// It happened; this is its result.
    Applied(T),
    /// It did not happen, and will not.
    NotApplied,
    /// It cannot say.
    Unknown,
}

/// Asks a service what became of an earlier attempt.
pub trait Reconcile<T, E>: Send {
    /// Whether it can be asked at all.
    const ASKS: bool;

    /// Asks. An error means that nothing was learned, and the job is tried again later.
    fn ask(self, intent: Intent) -> impl Future<Output = Result<Found<T>, E>> + Send;
}

/// Nobody can be asked.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl<T: Send, E> Reconcile<T, E> for Nobody {
    const ASKS: bool = false;

    async fn ask(self, _: Intent) -> Result<Found<T>, E> {
        Ok(Found::Unknown)
    }
}

/// A closure that asks.
#[derive(Debug, Clone, Copy)]
pub struct Asking<H>(H);

impl<T, E, H, F> Reconcile<T, E> for Asking<H>
where
    H: FnOnce(Intent) -> F + Send,
    F: Future<Output = Result<Found<T>, E>> + Send,
{
    const ASKS: bool = true;

    fn ask(self, intent: Intent) -> impl Future<Output = Result<Found<T>, E>> + Send {
        self.0(intent)
    }
}

/// An intent about to be run; see [`Ledger::intent`].
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct IntentRun<'a, S, H = Nobody> {
    ledger: &'a Ledger<S>,
    call: &'a Call,
    window: Option<Duration>,
    /// Asked on the first attempt too.
    always: bool,
    hook: H,
}

impl<S: Store> Ledger<S> {
    /// For a call to a service outside. The intent is written down first, then the effect runs, then its result is
    /// written down. After a crash, the next delivery runs the effect again *with the same downstream key*, so that the
    /// service answers with the first outcome; or it asks first, with [`IntentRun::reconcile`].
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the claim | runs the effect |
    /// | after the claim | runs it, told that it is recovering |
    /// | after the effect | runs it with the same key; the service answers with the first outcome |
    /// | after the record | gets the first result |
    ///
    /// If the effect fails, the intent stays, unless the effect says that it certainly did not happen
    /// ([`Failure::not_applied`]).
    pub fn intent<'a>(&'a self, call: &'a Call) -> IntentRun<'a, S> {
        let window = self.inner.window;
        IntentRun { ledger: self, call, window, always: false, hook: Nobody }
    }
}

impl<'a, S: Store, H> IntentRun<'a, S, H> {
    /// How long this service remembers a key, where it differs from the ledger's.
    pub fn provider_window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Asks the service what became of an earlier attempt, before anything is sent again. Then no provider window is
    /// needed: whoever can be asked need not remember the key.
    pub fn reconcile<G>(self, ask: G) -> IntentRun<'a, S, Asking<G>> {
        let Self { ledger, call, always, .. } = self;
        IntentRun { ledger, call, window: None, always, hook: Asking(ask) }
    }

    pub(crate) fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// Runs the effect, once.
    pub async fn run<T, E, F, Fut>(self, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
        H: Reconcile<T, E>,
    {
        let (ledger, scope) = (self.ledger, self.ledger.scope_of(self.call));
        let mut recovered = false;
        let verdict = self.pursue(scope.clone(), effect, &mut recovered).await;
        ledger.told(&scope, recovered, verdict)
    }

    async fn pursue<T, E, F, Fut>(
        self,
        scope: Scope,
        effect: F,
        recovered: &mut bool,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
        H: Reconcile<T, E>,
    {
        let expired = Expired::TakeOver { window: self.window };
        let mut attempt = match open(self.ledger, scope, self.call, expired).await? {
            Opened::Held(attempt) => attempt,
            Opened::Done(result) => return replayed(result.as_deref()),
            Opened::Busy(until) => return Ok(Verdict::InProgress { until }),
            Opened::Spent(since) => return Ok(Verdict::OutcomeUnknown { since }),
        };
        let recovering = attempt.grant.recovering;
        *recovered = recovering;
        // What an earlier attempt left is only known to be nothing if somebody said so.
        let mut clean = !recovering;
        if H::ASKS && (recovering || self.always) {
            match ask(self.ledger, attempt, self.hook).await? {
                Asked::Answer(verdict) => return Ok(verdict),
                Asked::Clean(again) => (attempt, clean) = (again, true),
            }
        }
        act(self.ledger, attempt, clean, effect).await
    }
}

enum Asked<T> {
    Answer(Verdict<T>),
    /// Nothing has happened so far.
    Clean(Box<Attempt>),
}

async fn ask<S: Store, T: Serialize, E>(
    ledger: &Ledger<S>,
    mut attempt: Box<Attempt>,
    hook: impl Reconcile<T, E>,
) -> Result<Asked<T>, Error<E>> {
    let intent = Intent::of(&attempt);
    let since = attempt.grant.since;
    match attempt.run(hook.ask(intent)).await? {
        Ok(Found::Applied(result)) => {
            attempt.complete(ledger, &result).await?;
            Ok(Asked::Answer(Verdict::Replayed(result)))
        }
        Ok(Found::NotApplied) => Ok(Asked::Clean(attempt)),
        Ok(Found::Unknown) => {
            attempt.release(ledger, Release::Recover).await;
            Ok(Asked::Answer(Verdict::OutcomeUnknown { since }))
        }
        Err(error) => {
            attempt.release(ledger, Release::Recover).await;
            Err(Error::Effect(error))
        }
    }
}

/// Runs the effect and writes down what came of it. `clean` says that no earlier attempt can have happened.
pub(crate) async fn act<S, T, E, F, Fut>(
    ledger: &Ledger<S>,
    mut attempt: Box<Attempt>,
    clean: bool,
    effect: F,
) -> Result<Verdict<T>, Error<E>>
where
    S: Store,
    T: Serialize,
    F: FnOnce(Intent) -> Fut,
    Fut: Future<Output = Result<T, Failure<E>>>,
{
    let intent = Intent::of(&attempt);
    match attempt.run(effect(intent)).await? {
        Ok(result) => {
            attempt.complete(ledger, &result).await?;
            Ok(Verdict::Applied(result))
        }
        Err(failure) => {
            let forget = clean && matches!(failure, Failure::NotApplied(_));
            attempt.release(ledger, if forget { Release::Forget } else { Release::Recover }).await;
            Err(Error::Effect(failure.into_inner()))
        }
    }
}

/// A duplicate's verdict. What was only marked as seen has no result, which reads as `null`.
pub(crate) fn replayed<T: DeserializeOwned, E>(result: Option<&str>) -> Result<Verdict<T>, Error<E>> {
    serde_json::from_str(result.unwrap_or("null")).map(Verdict::Replayed).map_err(Error::read)
}
