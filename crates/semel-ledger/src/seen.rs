//! The seen-set: for effects that are idempotent themselves, where running one again costs time but does no harm.

use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{Opened, open};
use crate::intent::replayed;
use crate::key::{Scope, Step};
use crate::store::{Expired, Release, Store};
use crate::{Call, Error, Key, Ledger, StoreError, Verdict};

/// Whether a key was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "this says whether there is work to do"]
pub enum Seen {
    /// No: this is the first.
    First,
    /// Yes.
    Before,
}

/// An idempotent effect; see [`Ledger::seen`].
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct SeenRun<'a, S> {
    ledger: &'a Ledger<S>,
    call: &'a Call,
}

impl<S: Store> Ledger<S> {
    /// Marks a key as seen, in one round trip, and says whether this was the first time.
    ///
    /// The mark comes *before* the work: if the worker dies in between, the work is not done. Use it to thin out
    /// duplicates (a notification, a cache to refresh), and [`Ledger::seen`] where the work must be done.
    pub async fn first(&self, key: &Key) -> Result<Seen, StoreError> {
        let scope = self.scope(key, Step::whole());
        if self.is_remembered(&scope) {
            return Ok(Seen::Before);
        }
        let marked = self.mark(std::slice::from_ref(&scope)).await?;
        Ok(if marked == [true] { Seen::First } else { Seen::Before })
    }

    /// Marks a batch of keys in one round trip; the answers are in the order of the keys.
    pub async fn first_of(&self, keys: &[Key]) -> Result<Vec<Seen>, StoreError> {
        let scopes: Vec<Scope> = keys.iter().map(|key| self.scope(key, Step::whole())).collect();
        let known: Vec<bool> = scopes.iter().map(|scope| self.is_remembered(scope)).collect();
        let unknown: Vec<Scope> = unknown(&scopes, &known);
        let marked = match unknown.is_empty() {
            true => Vec::new(),
            false => self.mark(&unknown).await?,
        };
        let mut marked = marked.into_iter();
        let seen =
            |known: bool| if !known && marked.next() == Some(true) { Seen::First } else { Seen::Before };
        Ok(known.into_iter().map(seen).collect())
    }

    /// Asks the store, and remembers what is marked from now on.
    async fn mark(&self, scopes: &[Scope]) -> Result<Vec<bool>, StoreError> {
        let asked = Instant::now();
        let marked = self.patient(self.inner.store.mark(scopes, self.inner.ttl)).await?;
        self.looked_up(asked);
        for (scope, _) in scopes.iter().zip(&marked).filter(|(_, first)| **first) {
            self.inner.cache.put(scope, None, None, (asked, self.inner.ttl));
        }
        Ok(marked)
    }

    fn is_remembered(&self, scope: &Scope) -> bool {
        let hit = self.inner.cache.get(scope).is_some();
        self.cached(hit);
        hit
    }

    /// For an effect that is idempotent itself: duplicates wait or get the first result, and after a crash or a failure
    /// the effect simply runs again.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the record | runs the effect again, which is harmless |
    /// | after the record | gets the first result |
    pub fn seen<'a>(&'a self, call: &'a Call) -> SeenRun<'a, S> {
        SeenRun { ledger: self, call }
    }
}

fn unknown(scopes: &[Scope], known: &[bool]) -> Vec<Scope> {
    scopes.iter().zip(known).filter(|(_, known)| !**known).map(|(scope, _)| scope.clone()).collect()
}

impl<S: Store> SeenRun<'_, S> {
    /// Runs the effect, unless it is known to have run.
    pub async fn run<T, E, F, Fut>(self, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let scope = self.ledger.scope_of(self.call);
        let mut recovered = false;
        let verdict = self.pursue(scope.clone(), effect, &mut recovered).await;
        self.ledger.told(&scope, recovered, verdict)
    }

    async fn pursue<T, E, F, Fut>(
        &self,
        scope: Scope,
        effect: F,
        recovered: &mut bool,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let ledger = self.ledger;
        let mut attempt = match open(ledger, scope, self.call, Expired::TakeOver { window: None }).await? {
            Opened::Held(attempt) => attempt,
            Opened::Done(result) => return replayed(result.as_deref()),
            Opened::Busy(until) => return Ok(Verdict::InProgress { until }),
            Opened::Spent(since) => return Ok(Verdict::OutcomeUnknown { since }),
        };
        *recovered = attempt.grant.recovering;
        match attempt.run(effect()).await? {
            Ok(result) => {
                attempt.complete(ledger, &result).await?;
                Ok(Verdict::Applied(result))
            }
            Err(error) => {
                attempt.release(ledger, Release::Forget).await;
                Err(Error::Effect(error))
            }
        }
    }
}
