//! What commands and their answers add to the metrics.

use semel_core::ids::JobId;
use semel_core::lease::Delivery;
use semel_core::name::QueueName;
use semel_core::outcome::{Effect, Outcome};
use semel_core::publish::Published;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};
use tracing::{debug, info};

use super::labels::{DeliveryOutcome, Door, EffectOutcome, PublishOutcome};
use super::metrics::Metrics;
use crate::command::{Answer, Command, Reply};

/// What has to be known of a command to count its answer, taken down before the store takes the command away.
#[derive(Debug)]
pub(super) enum Entry {
    Publish(QueueName),
    Settle { job: JobId, outcome: DeliveryOutcome, effect: Option<EffectOutcome> },
    DeleteQueue(QueueName),
    Other(&'static str),
}

impl Entry {
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Publish(publish) => Self::Publish(publish.draft().queue.clone()),
            Command::Settle(settle) => {
                let outcome = settle.outcome();
                Self::Settle { job: settle.id(), outcome: outcome_of(outcome), effect: effect_of(outcome) }
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

/// The queue in which a publish made a job.
fn created<'a>(entry: &'a Entry, answer: &Answer) -> Option<&'a QueueName> {
    match (entry, answer) {
        (Entry::Publish(queue), Ok(Reply::Published(published))) if !published.deduplicated => Some(queue),
        _ => None,
    }
}

/// A deduplication is neither a success nor a failure, so it has a line of its own. Whoever wants to know the key asks for the
/// job: the log is no place for it.
fn log_duplicate(queue: &QueueName, published: &Published) {
    match published.payload_matches {
        true => {
            debug!(event = "job.deduplicated", %queue, job = %published.id, "a publish was answered with an earlier job");
        }
        false => log_collision(queue, published.id, false),
    }
}

fn log_collision(queue: &QueueName, job: JobId, rejected: bool) {
    info!(event = "job.collision", %queue, %job, rejected, "a publish has the key of an earlier job and another payload");
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

    /// Counts all answers of a commit. New jobs of one queue in a row, which is what most are, are counted at once.
    pub(super) fn count_all(&self, entries: &[Entry], answers: &[Answer], now: Timestamp) {
        let mut rest = entries.iter().zip(answers).peekable();
        while let Some((entry, answer)) = rest.next() {
            let Some(queue) = created(entry, answer) else {
                self.count(entry, answer, now);
                continue;
            };
            let mut jobs = 1;
            while rest.next_if(|(entry, answer)| created(entry, answer) == Some(queue)).is_some() {
                jobs += 1;
            }
            self.metrics.created(queue, jobs);
        }
    }

    fn count(&self, entry: &Entry, answer: &Answer, now: Timestamp) {
        if let Err(refusal) = answer {
            debug!(command = entry.name(), code = refusal.code(), "refused");
        }
        match (entry, answer) {
            (Entry::Publish(queue), Ok(Reply::Published(published))) => self.deduplicated(queue, published),
            (Entry::Publish(queue), Err(refusal)) => self.not_published(queue, refusal),
            // A settle that is repeated changed nothing, and was counted when it did.
            (
                Entry::Settle { job, outcome, effect },
                Ok(Reply::Settled { queue, due, repeated: false, .. }),
            ) => {
                self.settled(queue, *outcome, due.map(|due| due.since(now)));
                effect.iter().for_each(|effect| self.told(queue, *job, *effect));
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

    fn deduplicated(&self, queue: &QueueName, published: &Published) {
        let outcome = match published.payload_matches {
            true => PublishOutcome::Deduplicated,
            false => PublishOutcome::Collision,
        };
        self.metrics.publish(Some(queue), outcome);
        self.metrics.duplicate(queue, Door::Publish);
        log_duplicate(queue, published);
    }

    /// A queue that does not exist gets no label: anybody could make up names until the metrics burst.
    fn not_published(&self, queue: &QueueName, refusal: &Refusal) {
        match refusal {
            Refusal::QueueNotFound(_) => self.metrics.publish(None, PublishOutcome::Rejected),
            Refusal::KeyCollision { id, .. } => {
                self.metrics.publish(Some(queue), PublishOutcome::Collision);
                log_collision(queue, *id, true);
            }
            _ => self.metrics.publish(Some(queue), PublishOutcome::Rejected),
        }
    }

    /// What a worker told of an effect.
    fn told(&self, queue: &QueueName, job: JobId, effect: EffectOutcome) {
        self.metrics.effect(queue, effect);
        if effect == EffectOutcome::Replayed {
            self.metrics.duplicate(queue, Door::Effect);
            debug!(event = "effect.replayed", %queue, %job, "a worker ran a job whose effect had happened before");
        }
    }

    fn settled(&self, queue: &QueueName, outcome: DeliveryOutcome, wait: Option<Millis>) {
        self.metrics.delivery(Some(queue), outcome);
        if let (Some(wait), DeliveryOutcome::Failed) = (wait, outcome) {
            self.metrics.retry_in(wait);
        }
    }

    fn expired(&self, queue: &QueueName) {
        self.metrics.delivery(Some(queue), DeliveryOutcome::Expired);
        self.metrics.expiration(queue);
    }
}
