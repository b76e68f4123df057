//! Who holds which API key, kept in memory so that a request does not wait for the store.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, Scope};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Store, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::service::AuthMode;

/// How exactly the last use of a key is known. Writing it down at every request would make reads write.
const USE_PRECISION: Millis = Millis::from_secs(60);

type Hash = [u8; 32];

/// The keys of a server.
pub struct Keyring {
    mode: AuthMode,
    grants: ArcSwap<HashMap<Hash, Arc<Grant>>>,
    /// Held by who reads the keys again.
    reading: Mutex<()>,
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
        let ring = Self { mode, grants: ArcSwap::default(), reading: Mutex::default() };
        ring.reload(store).await?;
        Ok(ring)
    }

    /// Reads the keys again. What is known of their last use is kept.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        self.take_over(store.api_keys()).await
    }

    /// One at a time, and each reads when it is its turn: what was read first would otherwise overwrite what was read last,
    /// and a key that was taken away would work again.
    async fn take_over(
        &self,
        read: impl Future<Output = Result<Vec<ApiKeyRecord>, StoreError>>,
    ) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await;
        let records = read.await?;
        let before = self.grants.load();
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

    /// The keys whose last use is not written down, and when that was.
    pub fn used(&self) -> Vec<(Arc<Grant>, Timestamp)> {
        self.grants.load().values().filter_map(|grant| Some((grant.clone(), grant.untold()?))).collect()
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

    fn untold(&self) -> Option<Timestamp> {
        let used = self.last_used.load(Ordering::Relaxed);
        (used != self.last_told.load(Ordering::Relaxed)).then(|| Timestamp::from_millis(used))
    }

    /// This use is written down.
    pub fn told(&self, used: Timestamp) {
        self.last_told.store(used.millis(), Ordering::Relaxed);
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
    use tokio::sync::oneshot;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    fn key_of(secret: &str) -> ApiKeyRecord {
        ApiKeyRecord {
            id: secret.to_owned(),
            hash: crate::credentials::hash(secret),
            label: String::new(),
            scopes: vec![Scope::Read],
            queues: vec!["*".to_owned()],
            created_at: NOW,
            expires_at: None,
            last_used_at: None,
        }
    }

    /// Reads twice at once: `slow` is in the store's answer before `quick` begins, and arrives when `quick` did what it can.
    /// As soon as the second is taken over, `then` happens.
    async fn read_twice(
        slow: Vec<ApiKeyRecord>,
        quick: Vec<ApiKeyRecord>,
        then: impl FnOnce(&Keyring),
    ) -> Keyring {
        let ring = Keyring { mode: AuthMode::Keys, grants: ArcSwap::default(), reading: Mutex::default() };
        let (arrive, arrived) = oneshot::channel::<()>();
        let slow = ring.take_over(async {
            arrived.await.unwrap();
            Ok(slow)
        });
        let quick = async {
            ring.take_over(async { Ok(quick) }).await.unwrap();
            then(&ring);
        };
        // Polled in this order.
        let (slow, (), ()) = tokio::join!(biased; slow, quick, async { arrive.send(()).unwrap() });
        slow.unwrap();
        ring
    }

    #[tokio::test]
    async fn a_key_that_was_taken_away_does_not_come_back_with_a_slow_read() {
        let ring = read_twice(vec![key_of("a")], vec![], |_| ()).await;
        assert!(ring.find("a", NOW).is_none());
    }

    #[tokio::test]
    async fn the_use_of_a_key_is_not_forgotten_with_a_slow_read() {
        let used = |ring: &Keyring| assert!(ring.find("a", NOW).is_some());
        let ring = read_twice(vec![key_of("a")], vec![key_of("a")], used).await;
        let used: Vec<_> = ring.used().into_iter().map(|(grant, at)| (grant.record.id.clone(), at)).collect();
        assert_eq!(used, [("a".to_owned(), NOW)]);
    }

    #[test]
    fn a_use_is_named_until_it_is_written_down() {
        let grant = Grant::new(key_of("a"));
        assert_eq!(grant.untold(), None);
        grant.used(NOW);
        assert_eq!(grant.untold(), Some(NOW));
        // What was to write it down failed.
        assert_eq!(grant.untold(), Some(NOW));
        grant.told(NOW);
        assert_eq!(grant.untold(), None);
    }

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
