//! Queues: making, reading, changing and taking them away; pause and resume; the secrets of their webhooks.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use semel_core::name::QueueName;
use semel_core::queue::{Delivery, QueueConfig};
use semel_core::records::{QueueRecord, Scope, WebhookSecret};
use semel_core::refusal::Refusal;
use semel_core::time::Millis;
use semel_store::{Command, QueueStats};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::Caller;
use super::body::Body;
use super::json::Json;
use super::path::InQueue;
use super::problem::{Problem, ProblemBody};
pub(super) use super::queue_config::{QueueBody, RetryBody};
use super::wire::{self, Seconds, Time};
use crate::delivery::sign;
use crate::service::Service;

/// How long the secret before goes on signing after a rotation, if nothing is said: a day to bring the new one everywhere.
const OVERLAP: Millis = Millis::from_hours(24);

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
pub(super) struct QueueView {
    /// Its name.
    name: String,
    /// How it behaves.
    #[serde(flatten)]
    config: QueueBody,
    /// Whether somebody paused it.
    paused: bool,
    /// Until when it waits out backpressure; null if it does not.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    held_until: Option<Time>,
    /// Where its breaker stands: `closed`, `half_open` or `open`; null if it has none.
    #[schema(required = true)]
    breaker_state: Option<&'static str>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// How many jobs stand where.
    counts: CountsView,
    /// How long handlers take here, as measured by this node.
    #[schema(required = true)]
    handler_time: Option<HandlerTimeView>,
    /// What should be looked at: settings that do not cover each other, time-outs that are too short.
    warnings: Vec<String>,
}

/// How many jobs stand where.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Counts)]
pub(super) struct CountsView {
    /// Waiting.
    pub(super) pending: u64,
    /// With a worker.
    pub(super) processing: u64,
    /// Received, not settled yet.
    pub(super) awaiting_ack: u64,
    /// Completed and still kept.
    pub(super) completed: u64,
    /// Dead letters.
    pub(super) dead: u64,
    /// Cancelled and still kept.
    pub(super) cancelled: u64,
    /// When the job that has been ready longest became due.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub(super) oldest_ready: Option<Time>,
}

/// How long handlers take.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HandlerTime)]
pub(super) struct HandlerTimeView {
    /// How many deliveries were measured.
    count: u64,
    /// Half of them were shorter, in seconds.
    #[schema(value_type = f64)]
    p50: Seconds,
    /// All but one in a hundred were shorter, in seconds.
    #[schema(value_type = f64)]
    p99: Seconds,
}

impl CountsView {
    /// The counts of a queue.
    pub(super) fn of(stats: &QueueStats) -> Self {
        Self {
            pending: stats.pending,
            processing: stats.processing,
            awaiting_ack: stats.awaiting_ack,
            completed: stats.completed,
            dead: stats.dead,
            cancelled: stats.cancelled,
            oldest_ready: stats.oldest_ready.map(Time),
        }
    }
}

impl QueueView {
    fn of(service: &Service, record: &QueueRecord, stats: Option<&QueueStats>) -> Self {
        use semel_core::breaker::Breaker;
        use semel_core::hold::Hold;
        let times = service.news.times.of(&record.name);
        Self {
            name: record.name.to_string(),
            config: QueueBody::of(&record.config),
            paused: record.gate.paused,
            held_until: match record.gate.hold {
                Hold::Until(at) => Some(Time(at)),
                Hold::Open | Hold::Probing => None,
            },
            breaker_state: record.config.breaker.map(|_| match record.gate.breaker {
                Breaker::Closed { .. } => "closed",
                Breaker::HalfOpen { .. } => "half_open",
                Breaker::Open { .. } => "open",
            }),
            created_at: Time(record.created_at),
            counts: stats.map(CountsView::of).unwrap_or_default(),
            handler_time: times.map(|t| HandlerTimeView {
                count: t.count,
                p50: Seconds(t.p50),
                p99: Seconds(t.p99),
            }),
            warnings: warnings(service, record),
        }
    }
}

/// The window proof, and lease advice from what was measured.
fn warnings(service: &Service, record: &QueueRecord) -> Vec<String> {
    let config = &record.config;
    let proof = semel_core::window::prove(config, config.ledger_ttl);
    let mut words: Vec<String> = proof.iter().map(ToString::to_string).collect();
    let (payload, body) = (config.payload_limit, service.options.body_limit);
    if payload as usize > body {
        words.push(format!(
            "payloadLimit is {payload} bytes, but this server takes single publishes of {body} bytes at most (limits.body)"
        ));
    }
    let times = service.news.times.of(&record.name);
    words.extend(times.and_then(|times| crate::upkeep::advice::advice(config, times)));
    words
}

async fn find(service: &Service, queue: &QueueName) -> Result<QueueRecord, Problem> {
    Ok(service.store.queue(queue).await?.ok_or_else(|| Refusal::QueueNotFound(queue.clone()))?)
}

async fn show(service: &Service, queue: &QueueName) -> Result<QueueView, Problem> {
    let record = find(service, queue).await?;
    let stats = service.store.stats().await?;
    let counts = stats.queues.iter().find(|stats| stats.queue == *queue);
    Ok(QueueView::of(service, &record, counts))
}

/// Makes a queue, or changes it: what is left out takes its default.
#[utoipa::path(put, path = "/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The queue")), request_body = Option<QueueBody>,
    responses((status = 200, description = "Changed", body = QueueView), (status = 201, description = "Made", body = QueueView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn put_queue(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    let config = wire::read_or_default_checked(&body.bytes, |asked: QueueBody| {
        let config = asked.into_config();
        config.validate()?;
        Ok(config)
    })?;
    let before = service.store.queue(&queue).await?;
    let needs_secret = needs_secret(&config, before.as_ref());
    let mut commands = vec![Command::PutQueue { name: queue.clone(), config: Box::new(config) }];
    if needs_secret {
        // Together, so that they go into one commit: a queue without a secret does not push.
        commands.push(Command::PutSecrets { queue: queue.clone(), secrets: vec![fresh_secret(&service)] });
    }
    for answer in service.commit.submit_all(commands).await {
        answer?;
    }
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(show(&service, &queue).await?)).into_response())
}

fn needs_secret(config: &QueueConfig, before: Option<&QueueRecord>) -> bool {
    matches!(config.delivery, Delivery::Push(_)) && before.is_none_or(|record| record.secrets.is_empty())
}

fn fresh_secret(service: &Service) -> WebhookSecret {
    WebhookSecret { secret: sign::new_secret(), created_at: service.store.now(), expires_at: None }
}

/// One queue.
#[utoipa::path(get, path = "/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = QueueView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn get_queue(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Read, &queue)?;
    Ok(Json(show(&service, &queue).await?).into_response())
}

/// Takes a queue away, when it has no unfinished job.
#[utoipa::path(delete, path = "/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The queue")),
    responses((status = 204, description = "Gone"), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn delete_queue(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    service.commit.submit(Command::DeleteQueue(queue.clone())).await?;
    service.metrics.forget(&queue);
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Queues.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueList {
    /// By name.
    queues: Vec<QueueView>,
}

/// All queues the key is for.
#[utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, description = "The queues", body = QueueList), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_queues(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let records = service.store.queues().await?;
    let stats = service.store.stats().await?;
    let shown = records.iter().filter(|record| caller.covers(&record.name)).map(|record| {
        let at = stats.queues.binary_search_by(|stats| stats.queue.cmp(&record.name)).ok();
        QueueView::of(&service, record, at.map(|at| &stats.queues[at]))
    });
    Ok(Json(QueueList { queues: shown.collect() }).into_response())
}

async fn set_paused(
    service: &Service,
    caller: &Caller,
    queue: QueueName,
    paused: bool,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    service.commit.submit(Command::Pause { queue: queue.clone(), paused }).await?;
    Ok(Json(show(service, &queue).await?).into_response())
}

/// Stops deliveries; publishes go on.
#[utoipa::path(post, path = "/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Paused", body = QueueView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn pause(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
) -> Result<Response, Problem> {
    set_paused(&service, &caller, queue, true).await
}

/// Lets deliveries go on.
#[utoipa::path(post, path = "/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Resumed", body = QueueView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn resume(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
) -> Result<Response, Problem> {
    set_paused(&service, &caller, queue, false).await
}

/// How to rotate.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Rotate)]
pub(super) struct RotateBody {
    /// Seconds for which the secret before goes on signing (a day).
    #[schema(value_type = Option<f64>)]
    overlap: Option<Seconds>,
}

/// A new secret. It is shown once.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewSecret)]
pub(super) struct SecretView {
    /// The secret: Standard Webhooks libraries take it as it is.
    secret: String,
    /// When the secret before stops signing; null if there was none.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    previous_expires_at: Option<Time>,
}

/// Makes a new secret for the webhook; the one before goes on signing for a while.
#[utoipa::path(post, path = "/v1/queues/{queue}/secrets/rotate", tag = "queues", params(("queue" = String, Path, description = "The queue")), request_body = Option<RotateBody>,
    responses((status = 200, description = "The new secret", body = SecretView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn rotate_secret(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    let asked: RotateBody = wire::read_or_default(&body.bytes)?;
    let now = service.store.now();
    let end = now.plus(asked.overlap.map_or(OVERLAP, |span| span.0));
    let mut secrets = find(&service, &queue).await?.secrets;
    secrets.retain(|old| old.expires_at.is_none_or(|at| at > now));
    // Two sign at once, the new one and the one before: a rotation in the middle of another ends the first.
    secrets.truncate(1);
    secrets.iter_mut().for_each(|old| old.expires_at = Some(end));
    let fresh = fresh_secret(&service);
    let answer =
        SecretView { secret: fresh.secret.clone(), previous_expires_at: secrets.first().map(|_| Time(end)) };
    secrets.insert(0, fresh);
    service.commit.submit(Command::PutSecrets { queue, secrets }).await?;
    Ok(Json(answer).into_response())
}
