//! The wall, instrumented once: every call to a store passes here, so no backend and no caller measures for itself.
//!
//! Put it directly around a backend, below group commit: then one [`Store::apply`] is one commit, and its duration and
//! size are those of commits. Traces carry names, counts and codes; never a payload, a key or a group.

mod account;
mod depth;
mod labels;
mod metrics;
mod vitals;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use tracing::{Instrument, Span, debug_span, warn};

use self::account::{Account, Entry};
pub use self::metrics::Metrics;
use crate::command::{Answer, Command};
use crate::error::StoreError;
use crate::health::Health;
use crate::query::{JobQuery, KeyRecord, Page};
use crate::stats::Stats;
use crate::store::Store;

/// A store that is watched. It keeps the law of the store it wraps, because it only passes calls on.
pub struct Observed {
    store: Arc<dyn Store>,
    account: Account,
}

impl Observed {
    /// Watches `store`.
    pub fn new(store: Arc<dyn Store>, metrics: Metrics) -> Self {
        Self { store, account: Account::new(metrics) }
    }

    /// Runs a call in its span, and reports it if the store fails. A refusal is no failure: the store did its work.
    async fn watch<T>(
        &self,
        span: Span,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        async {
            let result = call.await;
            if let Err(error) = &result {
                warn!(kind = metrics::kind(error), %error, "the store could not do what it was asked");
                self.account.metrics().failed(error);
            }
            result
        }
        .instrument(span)
        .await
    }
}

#[async_trait]
impl Store for Observed {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let entries: Vec<_> = batch.iter().map(Entry::of).collect();
        let span = debug_span!("store.apply", commands = batch.len());
        let began = Instant::now();
        let answers = self.watch(span, self.store.apply(batch)).await?;
        self.account.metrics().committed(began.elapsed(), entries.len());
        self.account.count_all(&entries, &answers, self.store.now());
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let span = debug_span!("store.lease", queue = %request.queue(), max = request.max());
        let deliveries = self.watch(span, self.store.lease(request)).await?;
        self.account.leased(&deliveries);
        Ok(deliveries)
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.watch(debug_span!("store.next_due", %queue), self.store.next_due(queue)).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.watch(debug_span!("store.next_expiry"), self.store.next_expiry()).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.watch(debug_span!("store.job", %id), self.store.job(id)).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        self.watch(debug_span!("store.jobs", limit = query.limit), self.store.jobs(query)).await
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.watch(debug_span!("store.key", %queue), self.store.key(queue, key)).await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.watch(debug_span!("store.queue", queue = %name), self.store.queue(name)).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.watch(debug_span!("store.queues"), self.store.queues()).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.watch(debug_span!("store.schedules"), self.store.schedules()).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.watch(debug_span!("store.api_keys"), self.store.api_keys()).await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.watch(debug_span!("store.replays"), self.store.replays()).await
    }

    /// Counts of every queue; the gauges of the metrics show the counts of the last call.
    async fn stats(&self) -> Result<Stats, StoreError> {
        let stats = self.watch(debug_span!("store.stats"), self.store.stats()).await?;
        self.account.metrics().counted(&stats, self.store.now());
        Ok(stats)
    }

    /// How the store is; the gauges show the last look.
    async fn health(&self) -> Result<Health, StoreError> {
        let health = self.watch(debug_span!("store.health"), self.store.health()).await?;
        self.account.metrics().examined(health);
        Ok(health)
    }

    fn now(&self) -> Timestamp {
        self.store.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.watch(debug_span!("store.close"), self.store.close()).await
    }
}
