//! What commands and their answers add to the metrics.

use semel_core::lease::Delivery;
use semel_core::name::QueueName;
use semel_core::outcome::{Effect, Outcome};
use semel_core::publish::Published;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};
use tracing::debug;

use super::labels::{DeliveryOutcome, Door, EffectOutcome, PublishOutcome};
use super::metrics::Metrics;
use crate::command::{Answer, Command, Reply};

/// What has to be known of a command to count its answer, taken down before the store takes the command away.
#[derive(Debug)]
pub(super) enum Entry {
    Publish(QueueName),
    Settle { outcome: DeliveryOutcome, effect: Option<EffectOutcome> },
    DeleteQueue(QueueName),
    Other(&'static str),
}

impl Entry {
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Publish(publish) => Self::Publish(publish.draft().queue.clone()),
            Command::Settle(settle) => {
                let outcome = settle.outcome();
                Self::Settle { outcome: outcome_of(outcome), effect: effect_of(outcome) }
            }
            Command::DeleteQueue(name) => Self::DeleteQueue(name.clone()),
            other => Self::Other(other.name()),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "publish",
            Self::Settle { .. } => "settle",
            Self::DeleteQueue(_) => "delete_queue",
            Self::Other(name) => name,
        }
    }
}

fn outcome_of(outcome: &Outcome) -> DeliveryOutcome {
    match outcome {
        Outcome::Done { .. } => DeliveryOutcome::Done,
        Outcome::Received => DeliveryOutcome::Received,
        Outcome::Failed { .. } => DeliveryOutcome::Failed,
        Outcome::Backpressure { .. } => DeliveryOutcome::Deferred,
        Outcome::Rejected { .. } => DeliveryOutcome::Rejected,
        Outcome::Expired => DeliveryOutcome::Expired,
    }
}

/// What became of the effect; only work that was done can have had one.
fn effect_of(outcome: &Outcome) -> Option<EffectOutcome> {
    let Outcome::Done { effect, .. } = outcome else { return None };
    Some(match effect.as_ref().map(|receipt| receipt.outcome) {
        Some(Effect::Applied) => EffectOutcome::Applied,
        Some(Effect::Replayed) => EffectOutcome::Replayed,
        Some(Effect::None) => EffectOutcome::None,
        None => EffectOutcome::Unreported,
    })
}

/// Keeps the metrics of one store.
#[derive(Debug)]
pub(super) struct Account {
    metrics: Metrics,
}

impl Account {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Counts deliveries that begin.
    pub(super) fn leased(&self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.metrics.delivery(Some(&delivery.spec.queue), DeliveryOutcome::Leased);
        }
    }

    /// Counts one answer.
    pub(super) fn count(&self, entry: &Entry, answer: &Answer, now: Timestamp) {
        if let Err(refusal) = answer {
            debug!(command = entry.name(), code = refusal.code(), "refused");
        }
        match (entry, answer) {
            (Entry::Publish(queue), Ok(Reply::Published(published))) => self.published(queue, published),
            (Entry::Publish(queue), Err(refusal)) => self.not_published(queue, refusal),
            // A settle that is repeated changed nothing, and was counted when it did.
            (Entry::Settle { outcome, effect }, Ok(Reply::Settled { queue, due, repeated: false, .. })) => {
                self.settled(queue, *outcome, *effect, due.map(|due| due.since(now)));
            }
            // A refusal does not say which queue the job is in, and asking would cost a read.
            (Entry::Settle { .. }, Err(Refusal::StaleLease(_))) => {
                self.metrics.delivery(None, DeliveryOutcome::Stale);
            }
            (Entry::DeleteQueue(name), Ok(_)) => self.metrics.forget(name),
            (Entry::Other(_), Ok(Reply::Rescued { jobs, .. })) => {
                jobs.iter().for_each(|job| self.expired(&job.queue));
            }
            _ => {}
        }
    }

    fn published(&self, queue: &QueueName, published: &Published) {
        let outcome = match (published.deduplicated, published.payload_matches) {
            (false, _) => PublishOutcome::Created,
            (true, true) => PublishOutcome::Deduplicated,
            (true, false) => PublishOutcome::Collision,
        };
        self.metrics.publish(Some(queue), outcome);
        if published.deduplicated {
            self.metrics.duplicate(queue, Door::Publish);
        }
    }

    /// A queue that does not exist gets no label: anybody could make up names until the metrics burst.
    fn not_published(&self, queue: &QueueName, refusal: &Refusal) {
        match refusal {
            Refusal::QueueNotFound(_) => self.metrics.publish(None, PublishOutcome::Rejected),
            Refusal::KeyCollision { .. } => self.metrics.publish(Some(queue), PublishOutcome::Collision),
            _ => self.metrics.publish(Some(queue), PublishOutcome::Rejected),
        }
    }

    fn settled(
        &self,
        queue: &QueueName,
        outcome: DeliveryOutcome,
        effect: Option<EffectOutcome>,
        wait: Option<Millis>,
    ) {
        self.metrics.delivery(Some(queue), outcome);
        if let Some(effect) = effect {
            self.metrics.effect(queue, effect);
        }
        if effect == Some(EffectOutcome::Replayed) {
            self.metrics.duplicate(queue, Door::Effect);
        }
        if let (Some(wait), DeliveryOutcome::Failed) = (wait, outcome) {
            self.metrics.retry_in(wait);
        }
    }

    fn expired(&self, queue: &QueueName) {
        self.metrics.delivery(Some(queue), DeliveryOutcome::Expired);
        self.metrics.expiration(queue);
    }
}
