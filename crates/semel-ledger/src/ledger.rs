//! The ledger: a store, a consumer, and how long things last.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::events::{self, Metrics, Outcome};
use crate::key::{Consumer, KeyError, Scope, Step};
use crate::store::{Record, Store};
use crate::{Call, Error, Key, StoreError, StoreErrorKind, Verdict};

/// How long a completed entry is kept. It must outlive the last retry and replay of its job: three days is a long weekend
/// on which nobody looked at the dead letters.
pub const DEFAULT_TTL: Duration = Duration::from_secs(72 * 3600);

/// How long a claim lasts unless it is renewed, which happens every third of it: long enough that a pause of the machine
/// does not lose it, short enough that a crash does not hold its job up for long.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// How long the store may take for an answer. A connection that hangs must not hang the worker.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// How much memory completed entries may take in this process.
pub const DEFAULT_CACHE: u64 = 16 << 20;

/// A ledger of one consumer. Cloning it is cheap; clones share its cache.
pub struct Ledger<S> {
    pub(crate) inner: Arc<Inner<S>>,
}

pub(crate) struct Inner<S> {
    pub(crate) store: S,
    pub(crate) consumer: Consumer,
    pub(crate) ttl: Duration,
    pub(crate) lease: Duration,
    pub(crate) window: Option<Duration>,
    patience: Duration,
    pub(crate) cache: Cache,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
}

/// Builds a [`Ledger`].
#[must_use = "a builder builds nothing before `build`"]
pub struct Builder<S> {
    store: S,
    consumer: String,
    ttl: Duration,
    lease: Duration,
    patience: Duration,
    window: Option<Duration>,
    cache: u64,
    metrics: Option<Arc<dyn Metrics>>,
}

/// What a ledger cannot be built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The consumer has no proper name.
    #[error(transparent)]
    Consumer(#[from] KeyError),
    /// Renewal could not keep up.
    #[error("a lease of {0:?} is too short to be renewed: use 50 ms or more")]
    Lease(Duration),
    /// Entries would be forgotten while their job is at work.
    #[error(
        "a TTL of {ttl:?} is not longer than the lease of {lease:?}: it must cover the longest retry and replay"
    )]
    Ttl {
        /// As given.
        ttl: Duration,
        /// As given.
        lease: Duration,
    },
    /// Every crash would end in an unknown outcome.
    #[error(
        "a provider window of {window:?} is not longer than the lease of {lease:?}: no crash could be recovered in it"
    )]
    Window {
        /// As given.
        window: Duration,
        /// As given.
        lease: Duration,
    },
}

impl<S: Store> Ledger<S> {
    /// A ledger in this store for this consumer: the name of the handler, the same in all its processes and versions.
    pub fn builder(store: S, consumer: impl Into<String>) -> Builder<S> {
        Builder {
            store,
            consumer: consumer.into(),
            ttl: DEFAULT_TTL,
            lease: DEFAULT_LEASE,
            patience: DEFAULT_PATIENCE,
            window: None,
            cache: DEFAULT_CACHE,
            metrics: None,
        }
    }

    /// Makes the store's tables, or brings them up to date. Those who run their own migrations find them in `ledger/`.
    pub async fn ensure_schema(&self) -> Result<(), StoreError> {
        self.inner.store.ensure_schema().await
    }

    /// The store it was built with.
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Whose ledger it is.
    pub fn consumer(&self) -> &Consumer {
        &self.inner.consumer
    }

    /// How long completed entries are kept.
    pub fn ttl(&self) -> Duration {
        self.inner.ttl
    }

    /// What is known about these keys, in one round trip and in their order: for consumers that poll batches, and for a
    /// preflight before a replay. Nothing changes.
    pub async fn lookup(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let scopes: Vec<Scope> = keys.iter().map(|key| self.scope(key, Step::whole())).collect();
        self.patient(self.inner.store.lookup(&scopes)).await
    }

    pub(crate) fn scope(&self, key: &Key, step: Step) -> Scope {
        Scope { consumer: self.inner.consumer.clone(), key: key.clone(), step }
    }

    /// The entry that a delivery is about.
    pub(crate) fn scope_of(&self, call: &Call) -> Scope {
        self.scope(&call.key, call.step.clone())
    }

    /// Waits for an answer of the store, but not for ever.
    pub(crate) async fn patient<T>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = self.inner.patience;
        let late = || StoreError::new(StoreErrorKind::Unavailable, format!("no answer within {patience:?}"));
        tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| Err(late()))
    }

    /// Counts how long the store took to decide.
    pub(crate) fn looked_up(&self, asked: Instant) {
        if let Some(metrics) = &self.inner.metrics {
            metrics.lookup(asked.elapsed());
        }
    }

    /// Counts a hit or a miss.
    pub(crate) fn cached(&self, hit: bool) {
        if let Some(metrics) = &self.inner.metrics {
            metrics.cache(hit);
        }
    }

    /// Tells what became of a delivery, and passes it on.
    pub(crate) fn told<T, E>(
        &self,
        scope: &Scope,
        recovered: bool,
        verdict: Result<Verdict<T>, Error<E>>,
    ) -> Result<Verdict<T>, Error<E>> {
        let outcome = match &verdict {
            Ok(Verdict::Applied(_)) if recovered => Outcome::Recovered,
            Ok(Verdict::Applied(_)) => Outcome::Applied,
            Ok(Verdict::Replayed(_)) if recovered => Outcome::Recovered,
            Ok(Verdict::Replayed(_)) => Outcome::Replayed,
            Ok(Verdict::InProgress { .. }) => Outcome::InProgress,
            Ok(Verdict::OutcomeUnknown { .. }) => Outcome::Unknown,
            Err(Error::Effect(_) | Error::Compensated { .. }) => Outcome::Failed,
            Err(Error::Collision { .. }) => Outcome::Collision,
            Err(Error::Stale) => Outcome::Stale,
            Err(Error::Unrecorded(_) | Error::CommitUnknown(_)) => Outcome::Unknown,
            Err(Error::Store(_) | Error::Result { .. } | Error::Key(_)) => Outcome::Refused,
        };
        events::verdict(scope, outcome);
        if let Some(metrics) = &self.inner.metrics {
            metrics.verdict(outcome);
        }
        verdict
    }
}

impl<S: Store> Builder<S> {
    /// How long completed entries are kept; [`DEFAULT_TTL`] unless said otherwise. It must cover the queue's longest
    /// retry and the oldest dead letter that may be replayed.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long a claim lasts unless it is renewed; [`DEFAULT_LEASE`] unless said otherwise.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long the store may take for an answer; [`DEFAULT_PATIENCE`] unless said otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long the services that intents go to remember a key (Stripe: 24 hours). An intent older than that is not
    /// repeated but an unknown outcome. Without it, keys are taken to be remembered for ever.
    pub fn provider_window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// How much memory completed entries may take; [`DEFAULT_CACHE`] unless said otherwise, and 0 turns it off.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache = bytes;
        self
    }

    /// Where metrics go.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The ledger, if all of this goes together.
    pub fn build(self) -> Result<Ledger<S>, BuildError> {
        let consumer = Consumer::new(&self.consumer)?;
        let (ttl, lease) = (self.ttl, self.lease);
        if lease < Duration::from_millis(50) {
            return Err(BuildError::Lease(lease));
        }
        if ttl <= lease {
            return Err(BuildError::Ttl { ttl, lease });
        }
        if let Some(window) = self.window.filter(|window| *window <= lease) {
            return Err(BuildError::Window { window, lease });
        }
        let (cache, metrics) = (Cache::new(self.cache), self.metrics);
        let (store, window, patience) = (self.store, self.window, self.patience);
        Ok(Ledger {
            inner: Arc::new(Inner { store, consumer, ttl, lease, window, patience, cache, metrics }),
        })
    }
}

impl<S> Clone for Ledger<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for Ledger<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { consumer, ttl, lease, window, cache, .. } = &*self.inner;
        f.debug_struct("Ledger")
            .field("consumer", consumer)
            .field("ttl", ttl)
            .field("lease", lease)
            .field("provider_window", window)
            .field("cache", cache)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}
