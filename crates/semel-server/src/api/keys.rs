//! A key and everything that happened under it: "was order 9482 charged twice?"

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::job::Job;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;
use semel_store::{Command, KeyRecord, Reply};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::Caller;
use super::body::Body;
use super::code::Code;
use super::json::Json;
use super::path::{InQueue, WithKey};
use super::problem::{Problem, ProblemBody};
use super::view::{Configs, EffectView, JobView};
use super::wire::{self, Time};
use crate::service::Service;

/// Longest reason for a release.
const REASON_MAX: usize = 500;

/// A key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeyRecord)]
pub(super) struct KeyView<'a> {
    /// The key.
    key: &'a str,
    /// Its queue.
    queue: &'a str,
    /// Whether a publish under it is answered with the job.
    holds: bool,
    /// When it stops holding; null while the job is unfinished.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    expires_at: Option<Time>,
    /// Publishes that were answered with the job.
    duplicates: u32,
    /// The newest job published under it.
    job: JobView<'a>,
    /// What happened, oldest first.
    timeline: Vec<Moment<'a>>,
}

/// Something that happened under a key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TimelineEntry)]
pub(super) struct Moment<'a> {
    /// When; what lies ahead has a time ahead.
    #[schema(value_type = String, format = DateTime)]
    at: Time,
    /// `published`, `suppressed`, `leased`, `delivered`, `effect`, `replayed`, `ended`, `released`, `expired` or `expires`.
    event: &'static str,
    /// suppressed: who published.
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<&'a str>,
    /// suppressed: whether the payload was that of the first publish.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_matches: Option<bool>,
    /// leased, delivered: which attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// delivered: how it ended; ended: the job's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// What went wrong, or why.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    /// effect: the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<EffectView<'a>>,
}

impl<'a> Moment<'a> {
    fn new(at: Timestamp, event: &'static str) -> Self {
        Self {
            at: Time(at),
            event,
            publisher: None,
            payload_matches: None,
            attempt: None,
            status: None,
            detail: None,
            effect: None,
        }
    }
}

/// Everything that is known to have happened, in the order it did.
fn timeline(record: &KeyRecord, now: Timestamp) -> Vec<Moment<'_>> {
    let job = &record.job;
    let mut moments = vec![Moment::new(job.spec.created_at, "published")];
    moments.extend(record.suppressed.iter().map(|suppressed| Moment {
        publisher: suppressed.publisher.as_deref(),
        payload_matches: Some(suppressed.payload_matches),
        ..Moment::new(suppressed.at, "suppressed")
    }));
    deliveries(job, &mut moments);
    moments.extend(job.progress.replayed_at.map(|at| Moment::new(at, "replayed")));
    if let Some(at) = job.progress.finished_at {
        moments.push(Moment { status: Some(job.progress.state.name()), ..Moment::new(at, "ended") });
    }
    if let Some(reason) = &job.progress.released {
        // When it was released is not kept; it cannot have been before the job's last known moment.
        let at = moments.iter().map(|moment| moment.at.0).max().unwrap_or(job.spec.created_at);
        moments.push(Moment { detail: Some(reason), ..Moment::new(at, "released") });
    } else if let Some(at) = record.expires_at {
        moments.push(Moment::new(at, if at <= now { "expired" } else { "expires" }));
    }
    moments.sort_by_key(|moment| moment.at.0);
    moments
}

fn deliveries<'a>(job: &'a Job, moments: &mut Vec<Moment<'a>>) {
    for attempt in &job.progress.history {
        let view = super::view::AttemptView::of(attempt);
        if let Some(took) = attempt.duration {
            let began = Timestamp::from_millis(attempt.at.millis().saturating_sub(took.millis()));
            moments.push(Moment { attempt: Some(attempt.number), ..Moment::new(began, "leased") });
        }
        moments.push(Moment {
            attempt: Some(attempt.number),
            status: Some(view.status),
            detail: attempt.error.as_deref(),
            ..Moment::new(attempt.at, "delivered")
        });
        if let Some(effect) = view.effect {
            moments.push(Moment {
                attempt: Some(attempt.number),
                effect: Some(effect),
                ..Moment::new(attempt.at, "effect")
            });
        }
    }
}

/// A key, the newest job under it, and its timeline.
#[utoipa::path(get, path = "/v1/queues/{queue}/keys/{key}", tag = "keys", params(("queue" = String, Path, description = "The queue"), ("key" = String, Path, description = "The key")),
    responses((status = 200, description = "The key", body = KeyView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn get_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    WithKey(key): WithKey,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Read, &queue)?;
    let found = service.store.key(&queue, &key).await?;
    let record = found.ok_or_else(|| Refusal::KeyNotFound(key.to_string()))?;
    let configs = Configs::of(service.store.as_ref(), std::slice::from_ref(&record.job)).await?;
    let view = KeyView {
        key: key.as_str(),
        queue: queue.as_str(),
        holds: record.holds,
        expires_at: record.expires_at.map(Time),
        duplicates: record.job.duplicates,
        job: configs.view(&record.job),
        timeline: timeline(&record, service.store.now()),
    };
    Ok(Json(view).into_response())
}

/// Why a key is released.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Release)]
pub(super) struct ReleaseBody {
    /// Kept with the job.
    #[schema(max_length = 500)]
    reason: Option<String>,
}

/// A key that was released.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Released {
    /// The job that had it.
    id: String,
    /// Always true.
    released: bool,
}

/// Frees a key: the next publish under it makes a new job.
#[utoipa::path(delete, path = "/v1/queues/{queue}/keys/{key}", tag = "keys", params(("queue" = String, Path, description = "The queue"), ("key" = String, Path, description = "The key")), request_body = Option<ReleaseBody>,
    responses((status = 200, description = "Free", body = Released), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn release_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    WithKey(key): WithKey,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    let asked: ReleaseBody = wire::read_or_default(&body.bytes)?;
    let reason = asked.reason.unwrap_or_else(|| "released by hand".to_owned());
    if reason.chars().count() > REASON_MAX {
        return Err(Problem::field("reason", format!("must be at most {REASON_MAX} characters")));
    }
    let reason = match caller.label() {
        Some(who) => format!("{reason} (by {who})"),
        None => reason,
    };
    match service.commit.submit(Command::ReleaseKey { queue, key, reason }).await? {
        Reply::KeyReleased(id) => Ok(Json(Released { id: id.to_string(), released: true }).into_response()),
        _ => Err(Problem::new(Code::Internal, "the store gave no answer")),
    }
}
