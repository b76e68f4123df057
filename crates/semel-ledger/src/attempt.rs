//! One attempt at an entry: claim it, keep it while the effect runs, write the result down. All modes but the
//! transactional one go through here.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::boundary::{Boundary, reach};
use crate::call::Call;
use crate::key::Scope;
use crate::renewal::Renewal;
use crate::store::{Claim, Claimed, Expired, Grant, Hold, Holder, Owner, Release, Store};
use crate::time::{Moment, Until};
use crate::{Error, Ledger, StoreError};

/// How a claim came out, where it is no error.
pub(crate) enum Opened {
    /// The effect is this delivery's to do.
    Held(Box<Attempt>),
    /// It was done before, with this result.
    Done(Option<String>),
    Busy(Until),
    Spent(Moment),
}

/// An entry that this delivery holds.
pub(crate) struct Attempt {
    pub(crate) holder: Holder,
    pub(crate) grant: Grant,
    pub(crate) scope: Scope,
    call: Call,
    renewal: Renewal,
}

/// Claims the entry, or says why not.
pub(crate) async fn open<S: Store, E>(
    ledger: &Ledger<S>,
    scope: Scope,
    call: &Call,
    expired: Expired,
) -> Result<Opened, Error<E>> {
    if let Some(done) = remembered(ledger, &scope, call)? {
        return Ok(Opened::Done(done));
    }
    reach(Boundary::BeforeClaim).await;
    let claim = Claim {
        scope,
        owner: Owner::random(),
        fence: call.token,
        fingerprint: call.input.clone(),
        lease: ledger.inner.lease,
        expired,
        ttl: ledger.inner.ttl,
    };
    let asked = Instant::now();
    let answer = ledger.patient(ledger.inner.store.claim(&claim)).await;
    ledger.looked_up(asked);
    let opened = opened(ledger, claim, call, asked, answer?)?;
    reach(Boundary::AfterClaim).await;
    Ok(opened)
}

fn opened<S: Store, E>(
    ledger: &Ledger<S>,
    claim: Claim,
    call: &Call,
    asked: Instant,
    answer: Claimed,
) -> Result<Opened, Error<E>> {
    Ok(match answer {
        Claimed::Granted(grant) => {
            let holder = Holder { scope: claim.scope.clone(), owner: claim.owner, token: grant.token };
            let renewal = Renewal::start(ledger, holder.clone(), asked);
            let attempt = Attempt { holder, grant, scope: claim.scope, call: call.clone(), renewal };
            Opened::Held(Box::new(attempt))
        }
        Claimed::Done(done) => {
            let (result, left) = (done.result.as_deref(), done.expires.remaining);
            ledger.inner.cache.put(&claim.scope, result, call.input.as_ref(), (asked, left));
            Opened::Done(done.result)
        }
        Claimed::Busy { until } => Opened::Busy(until),
        Claimed::Spent { since } => Opened::Spent(since),
        Claimed::Collision { recorded } => return Err(collision(&recorded, call)),
        Claimed::Stale { .. } => return Err(Error::Stale),
    })
}

/// The result of an entry that this process knows to be done.
///
/// Whether an input is the same cannot be said where the cache does not know the first one; then the store is asked.
pub(crate) fn remembered<S: Store, E>(
    ledger: &Ledger<S>,
    scope: &Scope,
    call: &Call,
) -> Result<Option<Option<String>>, Error<E>> {
    let found = ledger.inner.cache.get(scope);
    let found = found.filter(|found| call.input.is_none() || found.fingerprint.is_some());
    ledger.cached(found.is_some());
    let Some(found) = found else { return Ok(None) };
    match (&found.fingerprint, &call.input) {
        (Some(recorded), Some(given)) if **recorded != *given => Err(collision(recorded, call)),
        _ => Ok(Some(found.result.as_deref().map(str::to_owned))),
    }
}

pub(crate) fn collision<E>(recorded: &crate::Fingerprint, call: &Call) -> Error<E> {
    let fields = call.input.as_ref().map(|given| recorded.differences(given)).unwrap_or_default();
    Error::Collision { fields }
}

impl Attempt {
    /// Runs a part of the effect. If the claim is lost meanwhile, it is dropped where it stands.
    pub(crate) async fn run<T, E>(&mut self, part: impl Future<Output = T>) -> Result<T, Error<E>> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            () = self.renewal.lost() => Err(Error::Stale),
        }
    }

    /// Writes the result down. A failure to do so is no failure of the effect, so it is tried for as long as a lease lasts.
    pub(crate) async fn complete<S: Store, T: Serialize, E>(
        self,
        ledger: &Ledger<S>,
        result: &T,
    ) -> Result<(), Error<E>> {
        let result = serde_json::to_string(result).map_err(Error::written)?;
        reach(Boundary::AfterEffect).await;
        let (asked, ttl) = (Instant::now(), ledger.inner.ttl);
        match insist(ledger, || ledger.inner.store.complete(&self.holder, &result, ttl)).await {
            Ok(Hold::Held(())) => {}
            Ok(Hold::Lost) => return Err(Error::Stale),
            Err(error) => return Err(Error::Unrecorded(error)),
        }
        ledger.inner.cache.put(&self.scope, Some(&result), self.call.input.as_ref(), (asked, ttl));
        reach(Boundary::AfterRecord).await;
        Ok(())
    }

    /// Gives the claim up. If that cannot be written down, the lease ends by itself.
    pub(crate) async fn release<S: Store>(self, ledger: &Ledger<S>, release: Release) {
        if let Err(error) = ledger.patient(ledger.inner.store.release(&self.holder, release)).await {
            tracing::warn!(target: "semel_ledger", scope = %self.scope, %error, "a claim was not released; its lease will end");
        }
    }
}

/// Asks again after an error, with growing pauses, for as long as a lease lasts.
async fn insist<S: Store, T, F>(ledger: &Ledger<S>, ask: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let begun = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        match ledger.patient(ask()).await {
            Err(error) if error.retryable() && begun.elapsed() + pause < ledger.inner.lease => {
                tracing::warn!(target: "semel_ledger", %error, "a result was not recorded; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            answer => return answer,
        }
    }
}
