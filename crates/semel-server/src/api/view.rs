//! A job as callers see it.

use std::collections::{BTreeMap, HashMap};

use semel_core::job::{Attempt, AttemptStatus, Job};
use semel_core::key::Key;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{Effect, Receipt};
use semel_core::queue::QueueConfig;
use semel_core::time::Millis;
use semel_store::{Store, StoreError};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::wire::{Time, raw};

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub(crate) struct JobView<'a> {
    /// Its id.
    #[schema(value_type = String)]
    id: String,
    /// Its queue.
    queue: &'a str,
    /// `pending`, `processing`, `awaiting_ack`, `completed`, `dead` or `cancelled`.
    status: &'static str,
    /// Attempts used up.
    attempts: u32,
    /// Attempts it may use.
    max_attempts: u32,
    /// Times it was deferred.
    defer_count: u32,
    /// The sender's key.
    #[schema(required = true)]
    idempotency_key: Option<&'a str>,
    /// The payload, byte for byte; null once its retention is over.
    #[schema(value_type = Value)]
    payload: Option<&'a RawValue>,
    /// When it is to run, or was to run first.
    #[schema(value_type = String, format = DateTime)]
    scheduled_for: Time,
    /// What went wrong last.
    #[schema(required = true)]
    last_error: Option<&'a str>,
    /// Its deliveries, oldest first.
    history: Vec<AttemptView<'a>>,
    /// When it was published.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    completed_at: Option<Time>,
    /// What the worker returned.
    #[schema(value_type = Value)]
    result: Option<&'a RawValue>,
    /// What the worker said of the effect.
    #[schema(required = true)]
    effect: Option<EffectView<'a>>,
    /// Its priority.
    priority: i8,
    /// Its group.
    #[schema(required = true)]
    group: Option<&'a str>,
    /// What is delivered with it.
    metadata: BTreeMap<&'a str, &'a str>,
    /// Publishes that were answered with this job.
    duplicates: u32,
    /// Times it was replayed.
    replays: u32,
    /// When it was last replayed.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    replayed_at: Option<Time>,
    /// Why its key was released, if it was.
    #[schema(required = true)]
    key_released: Option<&'a str>,
}

/// One delivery of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(crate) struct AttemptView<'a> {
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// `success`, `failed`, `nacked`, `deferred` or `expired`.
    pub(crate) status: &'static str,
    /// What went wrong.
    #[schema(required = true)]
    pub(crate) error: Option<&'a str>,
    /// What the webhook answered.
    #[schema(required = true)]
    pub(crate) webhook_status_code: Option<u16>,
    /// When it was settled.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) timestamp: Time,
    /// How long it took.
    #[schema(required = true)]
    pub(crate) duration_ms: Option<u64>,
    /// What the worker said of the effect.
    #[schema(required = true)]
    pub(crate) effect: Option<EffectView<'a>>,
}

/// A receipt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Receipt)]
pub(crate) struct EffectView<'a> {
    /// `applied`, `replayed` or `none`.
    pub(crate) outcome: &'static str,
    /// The key it is recorded under in the ledger.
    #[schema(required = true)]
    pub(crate) key: Option<&'a str>,
}

impl<'a> JobView<'a> {
    /// A job of a queue with these settings.
    pub(crate) fn of(job: &'a Job, config: &QueueConfig) -> Self {
        let (spec, progress) = (&*job.spec, &job.progress);
        Self {
            id: job.id.to_string(),
            queue: spec.queue.as_str(),
            status: progress.state.name(),
            attempts: progress.attempts,
            max_attempts: spec.max_attempts(config),
            defer_count: progress.deferrals,
            idempotency_key: spec.key.as_ref().map(Key::as_str),
            payload: spec.payload.as_ref().map(raw),
            scheduled_for: Time(progress.due),
            last_error: progress.last_error(),
            history: progress.history.iter().map(AttemptView::of).collect(),
            created_at: Time(spec.created_at),
            completed_at: progress.finished_at.map(Time),
            result: progress.result.as_ref().map(raw),
            effect: progress.effect.as_ref().map(EffectView::of),
            priority: spec.priority.get(),
            group: spec.group.as_ref().map(Group::as_str),
            metadata: spec.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            duplicates: job.duplicates,
            replays: progress.replays,
            replayed_at: progress.replayed_at.map(Time),
            key_released: progress.released.as_deref(),
        }
    }
}

impl<'a> AttemptView<'a> {
    /// One entry of the history.
    pub(crate) fn of(attempt: &'a Attempt) -> Self {
        Self {
            attempt: attempt.number,
            status: status_name(attempt.status),
            error: attempt.error.as_deref(),
            webhook_status_code: attempt.status_code,
            timestamp: Time(attempt.at),
            duration_ms: attempt.duration.map(Millis::millis),
            effect: attempt.effect.as_ref().map(EffectView::of),
        }
    }
}

fn status_name(status: AttemptStatus) -> &'static str {
    match status {
        AttemptStatus::Success => "success",
        AttemptStatus::Failed => "failed",
        AttemptStatus::Nacked => "nacked",
        AttemptStatus::Deferred => "deferred",
        AttemptStatus::Expired => "expired",
    }
}

impl<'a> EffectView<'a> {
    /// A receipt.
    pub(crate) fn of(receipt: &'a Receipt) -> Self {
        let outcome = match receipt.outcome {
            Effect::Applied => "applied",
            Effect::Replayed => "replayed",
            Effect::None => "none",
        };
        Self { outcome, key: receipt.key.as_deref() }
    }
}

/// The settings of the queues that jobs belong to, each looked up once. A queue that is gone had the default ones.
#[derive(Debug, Default)]
pub(crate) struct Configs(HashMap<QueueName, QueueConfig>);

impl Configs {
    /// Looks up what these jobs need.
    pub(crate) async fn of(store: &dyn Store, jobs: &[Job]) -> Result<Self, StoreError> {
        let mut all = Self::default();
        for job in jobs {
            let queue = &job.spec.queue;
            if !all.0.contains_key(queue) {
                let config = store.queue(queue).await?.map(|record| record.config).unwrap_or_default();
                all.0.insert(queue.clone(), config);
            }
        }
        Ok(all)
    }

    /// How a job looks.
    pub(crate) fn view<'a>(&self, job: &'a Job) -> JobView<'a> {
        match self.0.get(&job.spec.queue) {
            Some(config) => JobView::of(job, config),
            None => JobView::of(job, &QueueConfig::default()),
        }
    }
}
