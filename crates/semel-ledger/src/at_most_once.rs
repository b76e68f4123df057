//! At most once: written down, then done, and never tried again.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{Opened, open};
use crate::intent::{Intent, act, replayed};
use crate::key::Scope;
use crate::store::{Expired, Store};
use crate::{Call, Error, Failure, Ledger, Verdict};

/// An effect that is tried once; see [`Ledger::at_most_once`].
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct AtMostOnceRun<'a, S> {
    ledger: &'a Ledger<S>,
    call: &'a Call,
}

impl<S: Store> Ledger<S> {
    /// For a service that neither takes a key nor can be asked (plain SMTP): *never twice* is chosen over *never lost*.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the claim | runs the effect |
    /// | after the claim | [`Verdict::OutcomeUnknown`]: it was not sent, and never will be |
    /// | after the effect | [`Verdict::OutcomeUnknown`]: it was sent |
    /// | after the record | gets the first result |
    ///
    /// An effect that fails counts as done, unless it says that it certainly did not happen ([`Failure::not_applied`]).
    pub fn at_most_once<'a>(&'a self, call: &'a Call) -> AtMostOnceRun<'a, S> {
        AtMostOnceRun { ledger: self, call }
    }
}

impl<S: Store> AtMostOnceRun<'_, S> {
    /// Runs the effect, unless it may have run before.
    pub async fn run<T, E, F, Fut>(self, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
    {
        let (ledger, scope) = (self.ledger, self.ledger.scope_of(self.call));
        let verdict = self.pursue(scope.clone(), effect).await;
        ledger.told(&scope, false, verdict)
    }

    async fn pursue<T, E, F, Fut>(self, scope: Scope, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Intent) -> Fut,
        Fut: Future<Output = Result<T, Failure<E>>>,
    {
        match open(self.ledger, scope, self.call, Expired::Spent).await? {
            Opened::Held(attempt) => act(self.ledger, attempt, true, effect).await,
            Opened::Done(result) => replayed(result.as_deref()),
            Opened::Busy(until) => Ok(Verdict::InProgress { until }),
            Opened::Spent(since) => Ok(Verdict::OutcomeUnknown { since }),
        }
    }
}
