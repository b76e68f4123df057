//! Transactional: key, effect and result in one transaction of the application's database. They commit or roll back
//! together, so a crash leaves nothing.
//!
//! Each store of a database has two forms, as methods of its `Ledger`:
//! - `transact(connection, &call, effect)` begins, runs the effect, records its result and commits.
//! - `begin(transaction, &call)` and [`New::record`] are for those who begin and commit by themselves.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{collision, remembered};
use crate::boundary::{Boundary, reach};
use crate::intent::replayed;
use crate::key::Scope;
#[cfg(any(feature = "sqlx-mysql", feature = "rusqlite"))]
use crate::store::{Claim, Expired, Owner};
use crate::store::{Claimed, Store};
use crate::time::{Moment, Until};
use crate::{Call, Error, Ledger, StoreError, StoreErrorKind, Verdict};

/// When to look again at a key that another transaction is working on. Nobody knows when that one ends; most end within
/// milliseconds, and a crash ends them at once.
const PAUSE: Duration = Duration::from_secs(1);

/// What a database says when an effect begins in a transaction.
pub(crate) enum Begun {
    /// The effect is this transaction's to do.
    New,
    /// It is not; as from a claim.
    Answered(Claimed),
}

impl Begun {
    /// Another transaction is at it. It has no lease; it ends in a moment, or its connection does.
    pub(crate) fn busy(now: Moment) -> Self {
        Self::Answered(Claimed::Busy { until: Until::seen(now.after(PAUSE), now) })
    }
}

impl<S: Store> Ledger<S> {
    /// What is the same around every transaction: a key that is remembered needs none, and the verdict is told.
    pub(crate) async fn around<T, E, F>(
        &self,
        call: &Call,
        transaction: impl FnOnce() -> F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: DeserializeOwned,
        F: Future<Output = Result<Verdict<T>, Error<E>>>,
    {
        let scope = self.scope_of(call);
        let verdict = match remembered(self, &scope, call) {
            Ok(Some(done)) => replayed(done.as_deref()),
            Ok(None) => {
                reach(Boundary::BeforeClaim).await;
                transaction().await
            }
            Err(error) => Err(error),
        };
        self.told(&scope, false, verdict)
    }
}

/// What a transaction asks for, where the rules are decided here: nobody's lease, and nothing that was not completed.
#[cfg(any(feature = "sqlx-mysql", feature = "rusqlite"))]
pub(crate) fn wish(scope: Scope, call: &Call) -> Claim {
    Claim {
        scope,
        owner: Owner::from_text(""),
        fence: call.token,
        fingerprint: call.input.clone(),
        lease: Duration::ZERO,
        expired: Expired::Spent,
        ttl: Duration::ZERO,
    }
}

/// The beginning of a transaction runs no effect, so none can have failed in it.
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(crate) fn never<E>(error: Error<std::convert::Infallible>) -> Error<E> {
    error.map(|never| match never {})
}

/// The start of an effect in a transaction of the application's own.
#[derive(Debug)]
#[must_use = "either the effect is to be done and recorded, or the verdict is to be passed on"]
pub enum Begin<'a, S, T> {
    /// Do the effect in this transaction, [`record`](New::record) its result in it, then commit.
    New(New<'a, S, T>),
    /// Roll back, or commit nothing of your own: this is the verdict.
    Answered(Verdict<T>),
}

/// An effect that has begun and must be recorded in the same transaction.
#[derive(Debug)]
#[must_use = "an effect that is not recorded will be repeated"]
pub struct New<'a, S, T> {
    pub(crate) ledger: &'a Ledger<S>,
    pub(crate) scope: Scope,
    pub(crate) call: &'a Call,
    result: PhantomData<fn(&T)>,
}

impl<'a, S: Store, T: Serialize + DeserializeOwned> Begin<'a, S, T> {
    /// What a database's answer comes to.
    pub(crate) fn of<E>(
        ledger: &'a Ledger<S>,
        call: &'a Call,
        asked: Instant,
        begun: Begun,
    ) -> Result<Self, Error<E>> {
        let scope = ledger.scope_of(call);
        ledger.looked_up(asked);
        match begun {
            Begun::New => Ok(Self::New(New { ledger, scope, call, result: PhantomData })),
            Begun::Answered(claimed) => answered(ledger, &scope, call, asked, claimed).map(Self::Answered),
        }
    }
}

impl<S: Store, T: Serialize> New<'_, S, T> {
    /// The result as it is recorded.
    pub(crate) fn text<E>(&self, result: &T) -> Result<String, Error<E>> {
        serde_json::to_string(result).map_err(Error::written)
    }

    /// Once the transaction has been committed, duplicates need not ask the database.
    pub(crate) fn committed(&self, text: &str) {
        let (ttl, input) = (self.ledger.inner.ttl, self.call.input.as_ref());
        // From now on, so a little longer than the store; what it saves is a question that would be answered the same.
        self.ledger.inner.cache.put(&self.scope, Some(text), input, (Instant::now(), ttl));
    }
}

/// The verdict for a delivery that has nothing to do.
fn answered<S: Store, T: DeserializeOwned, E>(
    ledger: &Ledger<S>,
    scope: &Scope,
    call: &Call,
    asked: Instant,
    claimed: Claimed,
) -> Result<Verdict<T>, Error<E>> {
    match claimed {
        Claimed::Done(done) => {
            let (result, left) = (done.result.as_deref(), done.expires.remaining);
            ledger.inner.cache.put(scope, result, call.input.as_ref(), (asked, left));
            replayed(result)
        }
        Claimed::Busy { until } => Ok(Verdict::InProgress { until }),
        Claimed::Spent { since } => Ok(Verdict::OutcomeUnknown { since }),
        Claimed::Collision { recorded } => Err(collision(&recorded, call)),
        Claimed::Stale { .. } => Err(Error::Stale),
        Claimed::Granted(_) => {
            let message = "a transaction was granted a lease, which it did not ask for";
            Err(Error::Store(StoreError::new(StoreErrorKind::Corrupt, message)))
        }
    }
}
