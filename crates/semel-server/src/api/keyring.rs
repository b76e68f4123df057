//! Who holds which API key, kept in memory so that a request does not wait for the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, Scope};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::service::AuthMode;

/// How exactly the last use of a key is known. Writing it down at every request would make reads write.
const USE_PRECISION: Millis = Millis::from_secs(60);

type Hash = [u8; 32];

/// The keys of a server.
pub struct Keyring {
    mode: AuthMode,
    grants: ArcSwap<HashMap<Hash, Arc<Grant>>>,
}

/// What one API key allows.
#[derive(Debug)]
pub struct Grant {
    /// The key as it is stored.
    pub record: ApiKeyRecord,
    last_used: AtomicU64,
    last_told: AtomicU64,
}

impl Keyring {
    /// Reads the keys of a store.
    pub async fn load(store: &dyn Store, mode: AuthMode) -> Result<Self, StoreError> {
        let ring = Self { mode, grants: ArcSwap::default() };
        ring.reload(store).await?;
        Ok(ring)
    }

    /// Reads the keys again. What is known of their last use is kept.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let before = self.grants.load();
        let records = store.api_keys().await?;
        let grants = records.into_iter().filter_map(|record| {
            let hash = decode(&record.hash)?;
            let known = before.get(&hash).filter(|grant| same_key(&grant.record, &record)).cloned();
            Some((hash, known.unwrap_or_else(|| Arc::new(Grant::new(record)))))
        });
        self.grants.store(Arc::new(grants.collect()));
        Ok(())
    }

    /// Whether anybody may do anything.
    pub fn is_open(&self) -> bool {
        self.mode == AuthMode::Open
    }

    /// The grant of a key that works at `now`. The key is hashed before it is looked up, so what a comparison takes says
    /// nothing about any key.
    pub fn find(&self, secret: &str, now: Timestamp) -> Option<Arc<Grant>> {
        let hash: Hash = Sha256::digest(secret.as_bytes()).into();
        let grant = self.grants.load().get(&hash)?.clone();
        if grant.record.expires_at.is_some_and(|end| end <= now) {
            return None;
        }
        grant.used(now);
        Some(grant)
    }

    /// The keys that were used since this was last asked, and when.
    pub fn take_used(&self) -> Vec<(String, Timestamp)> {
        self.grants.load().values().filter_map(|grant| grant.take_used()).collect()
    }
}

/// Whether a stored key is the one that is known, apart from its last use.
fn same_key(known: &ApiKeyRecord, stored: &ApiKeyRecord) -> bool {
    ApiKeyRecord { last_used_at: stored.last_used_at, ..known.clone() } == *stored
}

impl Grant {
    fn new(record: ApiKeyRecord) -> Self {
        let told = record.last_used_at.map_or(0, Timestamp::millis);
        Self { record, last_used: AtomicU64::new(told), last_told: AtomicU64::new(told) }
    }

    fn used(&self, now: Timestamp) {
        if now.millis() >= self.last_used.load(Ordering::Relaxed) + USE_PRECISION.millis() {
            self.last_used.store(now.millis(), Ordering::Relaxed);
        }
    }

    fn take_used(&self) -> Option<(String, Timestamp)> {
        let used = self.last_used.load(Ordering::Relaxed);
        let told = self.last_told.swap(used, Ordering::Relaxed);
        (used != told).then(|| (self.record.id.clone(), Timestamp::from_millis(used)))
    }

    /// Whether the key has a scope. Admin has them all.
    pub fn has(&self, scope: Scope) -> bool {
        self.record.scopes.iter().any(|held| *held == scope || *held == Scope::Admin)
    }

    /// Whether the key is for every queue.
    pub fn covers_all(&self) -> bool {
        self.record.queues.is_empty() || self.record.queues.iter().any(|glob| glob == "*")
    }

    /// Whether the key is for this queue.
    pub fn covers(&self, queue: &QueueName) -> bool {
        self.covers_all() || self.record.queues.iter().any(|glob| matches(glob, queue.as_str()))
    }
}

/// Whether a glob covers a name: `*` stands for any characters, everything else for itself.
fn matches(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn decode(hex: &str) -> Option<Hash> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let bytes: Vec<u8> = digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok()
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("mode", &self.mode).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (glob, name, covered) in [
            ("*", "orders", true),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders.*", "orders.eu", true),
            ("orders.*", "order", false),
            ("*.eu", "orders.eu", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(glob, name), covered, "{glob} {name}");
        }
    }
}
