//! Removing expired entries, in bites.

use std::time::Duration;

use crate::store::Store;
use crate::{Ledger, StoreError};

/// How prune goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Entries per statement. A bite holds its locks, and keeps a core of the database busy, for as long as it takes to delete
    /// them: a few hundred are a millisecond.
    pub bite: u32,
    /// Between two bites, so that claims get their share of the database.
    pub pause: Duration,
    /// Bites at most, so that a run ends.
    pub bites: u32,
}

impl Default for Prune {
    /// Some ten thousand entries a second: nearly a billion a day.
    fn default() -> Self {
        Self { bite: 250, pause: Duration::from_millis(15), bites: u32::MAX }
    }
}

impl<S: Store> Ledger<S> {
    /// Removes expired entries, of all consumers in the store, in small bites. Run it now and then from one place or from
    /// several; says how many are gone.
    pub async fn prune(&self, prune: Prune) -> Result<u64, StoreError> {
        let mut gone = 0;
        for _ in 0..prune.bites {
            let bitten = self.patient(self.inner.store.prune(prune.bite)).await?;
            gone += u64::from(bitten);
            if bitten < prune.bite {
                break;
            }
            tokio::time::sleep(prune.pause).await;
        }
        Ok(gone)
    }
}
