//! The instruments: their names, their labels, their buckets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

use super::depth::Depth;
use super::labels::{DeliveryOutcome, Door, EffectOutcome, Labels, OnlyQueue, PublishOutcome, Word};
use super::vitals::Vitals;
use crate::error::StoreError;
use crate::health::Health;
use crate::stats::{QueueStats, Stats};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    outcome: &'static str,
}

/// The metrics of a store. Clones are the same instruments.
///
/// Labels name only queues that exist: a publish to any other is counted under the empty queue, and when a queue is
/// deleted its series go with it. A settle or an expiry whose delivery this process did not lease is counted under the
/// empty queue too.
#[derive(Debug, Clone)]
pub struct Metrics {
    publishes: Family<Labels<PublishOutcome>, Counter>,
    duplicates: Family<Labels<Door>, Counter>,
    deliveries: Family<Labels<DeliveryOutcome>, Counter>,
    expirations: Family<OnlyQueue, Counter>,
    effects: Family<Labels<EffectOutcome>, Counter>,
    errors: Family<ErrorLabels, Counter>,
    commit_duration: Histogram,
    commit_batch_size: Histogram,
    retry_delay: Histogram,
    depth: Depth,
    vitals: Vitals,
    /// The queues of the last count.
    known: Arc<Mutex<BTreeSet<QueueName>>>,
}

impl Metrics {
    /// Makes the metrics and registers all of them, in one step so that none is forgotten.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            publishes: Family::default(),
            duplicates: Family::default(),
            deliveries: Family::default(),
            expirations: Family::default(),
            effects: Family::default(),
            errors: Family::default(),
            // A quarter of a millisecond, a commit to a fast disk, to eight seconds, a disk in trouble.
            commit_duration: Histogram::new(exponential_buckets(0.000_25, 2.0, 16)),
            // 1 to 1024, the largest batch.
            commit_batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            // A second to three days: retry policies span that much.
            retry_delay: Histogram::new(exponential_buckets(1.0, 4.0, 10)),
            depth: Depth::default(),
            vitals: Vitals::default(),
            known: Arc::default(),
        };
        metrics.register_counters(registry.sub_registry_with_prefix("semel"));
        metrics.register_measures(registry.sub_registry_with_prefix("semel"));
        metrics
    }

    /// The library adds the `_total`.
    fn register_counters(&self, registry: &mut Registry) {
        registry.register("publishes", "Publishes, by what came of them", self.publishes.clone());
        let help = "Duplicates that were stopped, by the door they came to";
        registry.register("job_duplicates", help, self.duplicates.clone());
        registry.register("deliveries", "Deliveries begun, and what came of them", self.deliveries.clone());
        registry.register("lease_expirations", "Leases that ran out", self.expirations.clone());
        registry.register(
            "effects",
            "Effects of completed jobs, as workers report them",
            self.effects.clone(),
        );
        registry.register("store_errors", "Calls that the store could not carry out", self.errors.clone());
    }

    fn register_measures(&self, registry: &mut Registry) {
        let help = "How long commits take until they are durable";
        registry.register("commit_duration_seconds", help, self.commit_duration.clone());
        registry.register("commit_batch_size", "Commands per commit", self.commit_batch_size.clone());
        let help = "How long failed jobs wait for their next attempt";
        registry.register("retry_delay_seconds", help, self.retry_delay.clone());
        registry.register_collector(Box::new(self.depth.clone()));
        registry.register_collector(Box::new(self.vitals.clone()));
    }

    pub(super) fn publish(&self, queue: Option<&QueueName>, outcome: PublishOutcome) {
        self.publishes.get_or_create(&Labels::new(queue, outcome)).inc();
    }

    pub(super) fn created(&self, queue: &QueueName, jobs: u64) {
        self.publishes.get_or_create(&Labels::new(Some(queue), PublishOutcome::Created)).inc_by(jobs);
    }

    pub(super) fn duplicate(&self, queue: &QueueName, door: Door) {
        self.duplicates.get_or_create(&Labels::new(Some(queue), door)).inc();
    }

    pub(super) fn delivery(&self, queue: Option<&QueueName>, outcome: DeliveryOutcome) {
        self.deliveries.get_or_create(&Labels::new(queue, outcome)).inc();
    }

    pub(super) fn expiration(&self, queue: &QueueName) {
        self.expirations.get_or_create(&OnlyQueue(Some(queue.clone()))).inc();
    }

    pub(super) fn effect(&self, queue: &QueueName, outcome: EffectOutcome) {
        self.effects.get_or_create(&Labels::new(Some(queue), outcome)).inc();
    }

    pub(super) fn retry_in(&self, wait: Millis) {
        self.retry_delay.observe(wait.millis() as f64 / 1000.0);
    }

    pub(super) fn committed(&self, took: Duration, commands: usize) {
        self.commit_duration.observe(took.as_secs_f64());
        self.commit_batch_size.observe(commands as f64);
    }

    pub(super) fn failed(&self, error: &StoreError) {
        self.errors.get_or_create(&ErrorLabels { outcome: kind(error) }).inc();
    }

    pub(super) fn counted(&self, stats: &Stats, at: Timestamp) {
        self.keep_to(&stats.queues);
        self.depth.set(stats, at);
    }

    /// Keeps the series to the queues there are, whoever made or deleted them.
    fn keep_to(&self, queues: &[QueueStats]) {
        let there: BTreeSet<_> = queues.iter().map(|stats| stats.queue.clone()).collect();
        let mut known = self.known.lock().expect("nothing panics while the lock of the queues is held");
        known.difference(&there).for_each(|queue| self.forget(queue));
        there.difference(&known).for_each(|queue| self.begin(queue));
        *known = there;
    }

    /// Shows the counters that alerts watch at zero. To Prometheus a series that begins at one has not increased, and the
    /// first collision of a queue would pass unnoticed.
    fn begin(&self, queue: &QueueName) {
        for outcome in PublishOutcome::ALL {
            drop(self.publishes.get_or_create(&Labels::new(Some(queue), *outcome)));
        }
        for door in Door::ALL {
            drop(self.duplicates.get_or_create(&Labels::new(Some(queue), *door)));
        }
        drop(self.expirations.get_or_create(&OnlyQueue(Some(queue.clone()))));
    }

    pub(super) fn examined(&self, health: Health) {
        self.vitals.set(health);
    }

    /// Drops the series of a queue that is gone, or queues that come and go would leave theirs behind for ever.
    pub(super) fn forget(&self, queue: &QueueName) {
        forget(&self.publishes, queue, PublishOutcome::ALL);
        forget(&self.duplicates, queue, Door::ALL);
        forget(&self.deliveries, queue, DeliveryOutcome::ALL);
        forget(&self.effects, queue, EffectOutcome::ALL);
        self.expirations.remove(&OnlyQueue(Some(queue.clone())));
    }
}

fn forget<W: Word>(family: &Family<Labels<W>, Counter>, queue: &QueueName, words: &[W]) {
    for word in words {
        family.remove(&Labels::new(Some(queue), *word));
    }
}

/// The kind of an error, as a label and in traces.
pub(super) fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "busy",
        StoreError::Unknown(_) => "unknown",
        StoreError::Full(_) => "full",
        StoreError::Failed(_) => "failed",
        StoreError::Corrupt(_) => "corrupt",
        StoreError::TooMany { .. } => "too_many",
        StoreError::Invalid(_) => "invalid",
        StoreError::Closed => "closed",
        StoreError::Open(_) => "open",
    }
}
