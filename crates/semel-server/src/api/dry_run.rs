//! The dedupe dry run: what other keys would have suppressed.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::key::Key;
use semel_core::queue::{QueueConfig, WINDOW_MAX};
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::time::Millis;
use semel_core::violation::Violations;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::Caller;
use super::body::{self, Body};
use super::json::Json;
use super::path::InQueue;
use super::problem::{Problem, ProblemBody};
use super::wire::{self, Seconds, Time};
use crate::advice::dry_run::{self, DryRun, Expression, OVER_MAX, Question, Sample, Suppressed};
use crate::service::Service;

/// How far back to look, if nothing is said.
const OVER: Millis = Millis::from_hours(24);

/// Bytes of payloads that one dry run has in hand. They count against what may be in hand at once, like bodies do.
const BYTES: usize = 64 * 1024 * 1024;

/// What to try.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = DedupeDryRun)]
pub(super) struct AskedView {
    /// What keys are to be made of: text with `{payload.path}`, `{metadata.name}`, `{group}` and `{key}`. The keys as they are,
    /// if left out.
    key: Option<String>,
    /// Seconds for which a key is to hold after the end of its job (the queue's window).
    #[schema(value_type = Option<f64>)]
    window: Option<Seconds>,
    /// Seconds to look back (a day).
    #[schema(value_type = Option<f64>)]
    over: Option<Seconds>,
}

/// What would have been.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DedupeDryRunResult)]
pub(super) struct DryRunView {
    /// Jobs published from here on were looked at.
    #[schema(value_type = String, format = DateTime)]
    from: Time,
    /// Until here.
    #[schema(value_type = String, format = DateTime)]
    to: Time,
    /// The window that was tried, in seconds.
    #[schema(value_type = f64)]
    window: Seconds,
    /// How many jobs were looked at.
    published: usize,
    /// Whether older ones were left out, because there are too many.
    truncated: bool,
    /// Jobs that would have been answered with an earlier one.
    would_suppress: usize,
    /// Of these, jobs whose payload is another than the earlier one's: collisions.
    would_collide: usize,
    /// How many keys would have suppressed anything.
    keys: usize,
    /// Jobs in which a placeholder has no value. They would have had no key.
    without_key: usize,
    /// Jobs whose key would have been refused: too long, or with control characters.
    invalid_key: usize,
    /// Jobs of which nothing is known, because their payload is no longer kept.
    payload_gone: usize,
    /// What the present keys did.
    current: CurrentView,
    /// Some of the keys, those that would have suppressed the most first.
    groups: Vec<GroupView>,
    /// What to know about the figures.
    notes: Vec<String>,
}

/// What the present keys did to the same jobs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CurrentDedupe)]
struct CurrentView {
    /// Jobs that were published under a key.
    with_key: usize,
    /// Publishes that were answered with one of these jobs. They are no jobs, so they are not among those looked at.
    suppressed: u64,
}

/// What one key would have done.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DedupeGroup)]
struct GroupView {
    /// The key.
    key: String,
    /// Jobs that would have had it.
    jobs: usize,
    /// Jobs that would have been answered with an earlier one.
    suppressed: usize,
    /// Of these, collisions.
    collisions: usize,
    /// Some of the jobs, the oldest first.
    samples: Vec<SampleView>,
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DedupeSample)]
struct SampleView {
    /// The job.
    id: String,
    /// When it was published.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// The key it was published under.
    #[schema(required = true)]
    idempotency_key: Option<String>,
    /// The job that it would have been answered with; null if it would have been created.
    #[schema(required = true)]
    instead: Option<String>,
    /// Whether its payload is that one's.
    payload_matches: bool,
}

/// Says what a key expression or a window would have suppressed, over the jobs that are still stored. Changes nothing.
#[utoipa::path(post, path = "/v1/queues/{queue}/dedupe-dry-run", tag = "queues", params(("queue" = String, Path, description = "The queue")), request_body = Option<AskedView>,
    responses((status = 200, description = "What would have been", body = DryRunView), (status = "4XX", description = "Not done", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not known now", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn dedupe_dry_run(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Read, &queue)?;
    let asked = wire::read_or_default_checked(&body.bytes, |asked: AskedView| Ok(checked(&asked)?))?;
    let record = service.store.queue(&queue).await?.ok_or_else(|| Refusal::QueueNotFound(queue.clone()))?;
    let bytes = (service.options.intake_bytes / 4).min(BYTES);
    let _room = body::room(&service, bytes)?;
    let (expression, window, over) = asked;
    let window = window.unwrap_or(record.config.window);
    let run =
        dry_run::run(service.store.as_ref(), &record, Question { expression, window, over, bytes }).await?;
    Ok(Json(DryRunView::of(run, window, over, &record.config)).into_response())
}

/// Checks what is asked; everything that is wrong is named.
fn checked(asked: &AskedView) -> Result<(Expression, Option<Millis>, Millis), Violations> {
    let mut wrong = Violations::default();
    let expression = asked.key.as_deref().map(str::parse::<Expression>).transpose();
    if let Err(problem) = &expression {
        wrong.add("key", problem);
    }
    let window = asked.window.map(|window| window.0);
    wrong.require(window.is_none_or(|window| window <= WINDOW_MAX), "window", || {
        format!("must be at most {WINDOW_MAX}")
    });
    let over = asked.over.map_or(OVER, |over| over.0);
    wrong.require(Millis::ZERO < over && over <= OVER_MAX, "over", || {
        format!("must be more than 0 and at most {OVER_MAX}")
    });
    wrong.into_result()?;
    Ok((expression.ok().flatten().unwrap_or_default(), window, over))
}

impl DryRunView {
    fn of(run: DryRun, window: Millis, over: Millis, config: &QueueConfig) -> Self {
        let notes = notes(&run, over, config);
        let DryRun {
            from,
            to,
            jobs,
            truncated,
            without_key,
            unfit,
            payload_gone,
            keyed,
            suppressed_now,
            verdict,
        } = run;
        Self {
            from: Time(from),
            to: Time(to),
            window: Seconds(window),
            published: jobs,
            truncated,
            would_suppress: verdict.suppressed,
            would_collide: verdict.collisions,
            keys: verdict.keys,
            without_key,
            invalid_key: unfit,
            payload_gone,
            current: CurrentView { with_key: keyed, suppressed: suppressed_now },
            groups: verdict.groups.into_iter().map(GroupView::of).collect(),
            notes,
        }
    }
}

/// What keeps the figures from telling everything.
fn notes(run: &DryRun, over: Millis, config: &QueueConfig) -> Vec<String> {
    let kept = config.retention.completed;
    let pruned = (kept < over).then(|| {
        format!(
            "retention.completed is {kept}: payloads of jobs that ended before that are gone, and so are jobs without a \
             key that holds"
        )
    });
    let gone = (run.payload_gone > 0).then(|| {
        format!("{} jobs are left out, because their payload is no longer kept (retention)", run.payload_gone)
    });
    let cut = run.truncated.then(|| format!("only the newest {} jobs were looked at", run.jobs));
    [pruned, gone, cut].into_iter().flatten().collect()
}

impl GroupView {
    fn of(found: Suppressed) -> Self {
        let Suppressed { key, jobs, suppressed, collisions, samples } = found;
        let samples = samples.iter().map(SampleView::of).collect();
        Self { key: key.to_string(), jobs, suppressed, collisions, samples }
    }
}

impl SampleView {
    fn of(sample: &Sample) -> Self {
        Self {
            id: sample.id.to_string(),
            created_at: Time(sample.created_at),
            idempotency_key: sample.key.as_ref().map(Key::to_string),
            instead: sample.instead.map(|id| id.to_string()),
            payload_matches: sample.payload_matches,
        }
    }
}
