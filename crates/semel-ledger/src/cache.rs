//! Completed entries in this process's memory, so that a duplicate costs no round trip.
//!
//! Only what is *done* is kept, and not beyond its expiry: a hit can say "it happened", never "it did not".

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;

use crate::Fingerprint;
use crate::key::Scope;

/// What an entry weighs besides its texts: the cache's own bookkeeping, the key's pointers, the value's.
const OVERHEAD: usize = 160;

/// A completed entry.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) result: Option<Arc<str>>,
    pub(crate) fingerprint: Option<Arc<Fingerprint>>,
    /// On this machine's monotonic clock, by what the store said was left.
    expires: Option<Instant>,
}

/// A cache that is bounded by the bytes it takes.
pub(crate) struct Cache {
    entries: Option<QuickCache<Scope, Remembered, Bytes>>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Scope, Remembered> for Bytes {
    fn weight(&self, scope: &Scope, value: &Remembered) -> u64 {
        let names = scope.consumer.as_str().len() + scope.key.as_str().len() + scope.step.as_str().len();
        let result = value.result.as_ref().map_or(0, |result| result.len());
        // Half a hash and a name for each field, roughly.
        let fingerprint = value.fingerprint.as_ref().map_or(0, |fingerprint| fingerprint.fields() * 128);
        u64::try_from(OVERHEAD + names + result + fingerprint).unwrap_or(u64::MAX)
    }
}

impl Cache {
    /// Takes up to so many bytes; none at all turns it off.
    pub(crate) fn new(bytes: u64) -> Self {
        let expected = usize::try_from(bytes / 512).unwrap_or(usize::MAX);
        Self { entries: (bytes > 0).then(|| QuickCache::with_weighter(expected, bytes, Bytes)) }
    }

    pub(crate) fn get(&self, scope: &Scope) -> Option<Remembered> {
        let found = self.entries.as_ref()?.get(scope)?;
        found.expires.is_none_or(|expires| Instant::now() < expires).then_some(found)
    }

    /// Keeps a completed entry for as long as the store does: `left` from the moment `asked` on.
    pub(crate) fn put(
        &self,
        scope: &Scope,
        result: Option<&str>,
        fingerprint: Option<&Fingerprint>,
        (asked, left): (Instant, Duration),
    ) {
        let Some(entries) = &self.entries else { return };
        let remembered = Remembered {
            result: result.map(Arc::from),
            fingerprint: fingerprint.cloned().map(Arc::new),
            expires: asked.checked_add(left),
        };
        entries.insert(scope.clone(), remembered);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.as_ref().map_or(0, QuickCache::len);
        f.debug_struct("Cache").field("entries", &entries).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, Key, Step};

    fn scope(key: &str) -> Scope {
        Scope { consumer: Consumer::new("c").unwrap(), key: Key::new(key).unwrap(), step: Step::whole() }
    }

    #[test]
    fn what_has_expired_is_no_hit() {
        let cache = Cache::new(1 << 20);
        let now = Instant::now();
        cache.put(&scope("kept"), Some("1"), None, (now, Duration::from_secs(3600)));
        cache.put(&scope("gone"), Some("1"), None, (now, Duration::ZERO));
        assert!(cache.get(&scope("kept")).is_some());
        assert!(cache.get(&scope("gone")).is_none());
    }

    #[test]
    fn it_is_bounded_by_bytes() {
        let cache = Cache::new(10_000);
        for n in 0..1000 {
            cache.put(&scope(&format!("k{n}")), Some("1234567890"), None, (Instant::now(), Duration::MAX));
        }
        let kept = (0..1000).filter(|n| cache.get(&scope(&format!("k{n}"))).is_some()).count();
        assert!((1..=60).contains(&kept), "{kept}");
    }

    #[test]
    fn none_at_all_turns_it_off() {
        let cache = Cache::new(0);
        cache.put(&scope("k"), None, None, (Instant::now(), Duration::MAX));
        assert!(cache.get(&scope("k")).is_none());
    }
}
