//! What the server counts besides the store: how deliveries by webhook go, and what holds queues back.

mod standing;
pub mod text;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use semel_core::name::QueueName;
use semel_core::records::QueueRecord;
use semel_core::time::Millis;

use self::standing::Standing;

/// Buckets from a millisecond to the longest time-out of a webhook.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 900.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

impl QueueLabel {
    fn of(queue: &QueueName) -> Self {
        Self { queue: queue.as_str().to_owned() }
    }
}

/// What became of a span that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanOutcome {
    /// The collector has it.
    Exported,
    /// Too many were waiting.
    Dropped,
    /// The collector did not take it.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SpanLabel {
    outcome: &'static str,
}

/// The server's own metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    delivery_duration: Family<QueueLabel, Histogram>,
    holds: Family<QueueLabel, Counter>,
    persistent: Family<QueueLabel, Counter>,
    standing: Standing,
    spans: Family<SpanLabel, Counter>,
}

impl Metrics {
    /// Makes them, and has them shown.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            delivery_duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            holds: Family::default(),
            persistent: Family::default(),
            standing: Standing::default(),
            spans: Family::default(),
        };
        let help = "How long webhooks took to answer, or failed to";
        registry.register("delivery_duration_seconds", help, metrics.delivery_duration.clone());
        let help = "Times a worker asked its whole queue to wait";
        registry.register("holds", help, metrics.holds.clone());
        let help = "Times a key or an effect came back more often than its queue allows";
        registry.register("persistent_duplicates", help, metrics.persistent.clone());
        let help = "Spans that were recorded, by what became of them";
        registry.register("spans", help, metrics.spans.clone());
        registry.register_collector(Box::new(metrics.standing.clone()));
        metrics
    }

    /// A webhook answered, or failed to.
    pub fn delivered(&self, queue: &QueueName, took: Millis) {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds up to 15 minutes are exact")]
        let seconds = took.millis() as f64 / 1000.0;
        self.delivery_duration.get_or_create(&QueueLabel::of(queue)).observe(seconds);
    }

    /// A worker asked its queue to wait.
    pub fn held(&self, queue: &QueueName) {
        self.holds.get_or_create(&QueueLabel::of(queue)).inc();
    }

    /// A duplicate was found to be persistent.
    pub fn persistent_duplicate(&self, queue: &QueueName) {
        self.persistent.get_or_create(&QueueLabel::of(queue)).inc();
    }

    /// So many spans were exported, or not.
    pub fn spans(&self, outcome: SpanOutcome, count: usize) {
        let outcome = match outcome {
            SpanOutcome::Exported => "exported",
            SpanOutcome::Dropped => "dropped",
            SpanOutcome::Failed => "failed",
        };
        self.spans.get_or_create(&SpanLabel { outcome }).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Takes down where the queues stand, before it is shown: their breakers, and what the window proof says of them.
    pub fn queues(&self, queues: &[QueueRecord]) {
        self.standing.set(queues);
    }

    /// Drops the series of a queue that is gone.
    pub fn forget(&self, queue: &QueueName) {
        let label = QueueLabel::of(queue);
        self.delivery_duration.remove(&label);
        self.holds.remove(&label);
        self.persistent.remove(&label);
    }
}
