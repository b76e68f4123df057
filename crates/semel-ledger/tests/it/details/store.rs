//! A memory store that can be told to fail, and that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use semel_ledger::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use semel_ledger::{Memory, Scope, StoreError, StoreErrorKind, Until};

#[derive(Debug, Clone, Default)]
pub(super) struct Moody {
    pub(super) memory: Memory,
    moods: Arc<Moods>,
}

#[derive(Debug, Default)]
struct Moods {
    /// How many claims, and how many completions, are still to fail; the latter without or after having been written.
    claims: AtomicU32,
    completions: AtomicU32,
    unconfirmed: AtomicU32,
    silent: AtomicBool,
    renewals: AtomicU64,
    asked: AtomicU64,
}

fn down() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "it is down")
}

/// Whether one more is to fail.
fn spent(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Moody {
    pub(super) fn fail_claims(&self, count: u32) {
        self.moods.claims.store(count, Ordering::SeqCst);
    }

    pub(super) fn fail_completions(&self, count: u32) {
        self.moods.completions.store(count, Ordering::SeqCst);
    }

    /// They are written, and the answer is lost.
    pub(super) fn lose_answers(&self, count: u32) {
        self.moods.unconfirmed.store(count, Ordering::SeqCst);
    }

    /// Claims are not answered any more.
    pub(super) fn be_silent(&self) {
        self.moods.silent.store(true, Ordering::SeqCst);
    }

    pub(super) fn renewals(&self) -> u64 {
        self.moods.renewals.load(Ordering::SeqCst)
    }

    /// Claims and marks.
    pub(super) fn asked(&self) -> u64 {
        self.moods.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.moods.asked.fetch_add(1, Ordering::SeqCst);
        if self.moods.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if spent(&self.moods.claims) { Err(down()) } else { self.memory.claim(claim).await }
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        self.moods.renewals.fetch_add(1, Ordering::SeqCst);
        self.memory.renew(holder, lease).await
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        if spent(&self.moods.completions) {
            return Err(down());
        }
        let answer = self.memory.complete(holder, result, ttl).await;
        if spent(&self.moods.unconfirmed) { Err(down()) } else { answer }
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        self.memory.release(holder, release).await
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        self.moods.asked.fetch_add(1, Ordering::SeqCst);
        self.memory.mark(scopes, ttl).await
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        self.memory.lookup(scopes).await
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        self.memory.prune(limit).await
    }
}
