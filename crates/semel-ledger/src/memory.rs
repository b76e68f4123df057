//! Entries in memory: for tests, and the reference that other stores are compared with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::rules::{Decision, Row, decide};
use crate::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use crate::time::{Moment, Until, millis};
use crate::{Scope, StoreError};

/// Entries that live as long as this value and its clones. Its clock is the machine's, plus what a test adds.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<HashMap<Scope, Row>>,
    /// Milliseconds that the store's clock is ahead.
    ahead: AtomicI64,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the store's clock on: leases end, entries expire.
    pub fn advance(&self, span: Duration) {
        self.shared.ahead.fetch_add(millis(span), Ordering::SeqCst);
    }

    /// How many entries there are, expired ones included.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }

    fn now(&self) -> Moment {
        let machine = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let machine = i64::try_from(machine.as_millis()).unwrap_or(i64::MAX);
        Moment::from_millis(machine.saturating_add(self.shared.ahead.load(Ordering::SeqCst)))
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<Scope, Row>> {
        // Nothing panics while it holds the lock, and a row is written in one piece.
        self.shared.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs `act` on the holder's row, if it still is the holder's.
    fn held<T>(&self, holder: &Holder, act: impl FnOnce(&mut Row, Moment) -> Option<T>) -> Hold<T> {
        let now = self.now();
        let mut rows = self.rows();
        let row = rows.get_mut(&holder.scope).filter(|row| row.lives(now));
        row.filter(|row| row.is_of(&holder.owner, holder.token))
            .and_then(|row| act(row, now))
            .map_or(Hold::Lost, Hold::Held)
    }
}

#[async_trait]
impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let mut rows = self.rows();
        match decide(rows.get(&claim.scope), claim, self.now()) {
            Decision::Answer(answer) => Ok(answer),
            Decision::Write(row, answer) => {
                rows.insert(claim.scope.clone(), row);
                Ok(answer)
            }
        }
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        Ok(self.held(holder, |row, now| {
            let until = now.after(lease);
            row.done.is_none().then(|| {
                row.until = until;
                row.expires = row.expires.map(|expires| expires.max(until));
                Until::seen(until, now)
            })
        }))
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        Ok(self.held(holder, |row, now| {
            if row.done.is_none() {
                row.done = Some(now);
                row.expires = Some(now.after(ttl));
                row.result = Some(result.to_owned());
            }
            Some(())
        }))
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let now = self.now();
        let mut rows = self.rows();
        let ours =
            |row: &&mut Row| row.lives(now) && row.is_of(&holder.owner, holder.token) && row.done.is_none();
        let Some(row) = rows.get_mut(&holder.scope).filter(ours) else { return Ok(Hold::Lost) };
        match release {
            Release::Recover => row.until = row.until.min(now),
            Release::Forget => drop(rows.remove(&holder.scope)),
        }
        Ok(Hold::Held(()))
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let now = self.now();
        let mut rows = self.rows();
        let mark = |scope: &Scope| {
            let first = !rows.get(scope).is_some_and(|row| row.lives(now));
            if first {
                rows.insert(scope.clone(), Row::marked(now, ttl));
            }
            first
        };
        Ok(scopes.iter().map(mark).collect())
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        let now = self.now();
        let rows = self.rows();
        let record = |scope| rows.get(scope).filter(|row| row.lives(now)).map(|row| row.record(now));
        Ok(scopes.iter().map(record).collect())
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        let now = self.now();
        let mut rows = self.rows();
        let expired = |(scope, row): (&Scope, &Row)| (!row.lives(now)).then(|| scope.clone());
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let gone: Vec<Scope> = rows.iter().filter_map(expired).take(limit).collect();
        for scope in &gone {
            rows.remove(scope);
        }
        Ok(u32::try_from(gone.len()).unwrap_or(u32::MAX))
    }
}
