//! Settling a delivery: ack, nack, defer; keeping it longer; and many at once.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::ids::{JobId, Token};
use semel_core::lease::Extend;
use semel_core::outcome::{DeferScope, Effect, Outcome, Receipt};
use semel_core::records::Scope;
use semel_core::settle::{Report, Settle};
use semel_core::violation::Violations;
use semel_store::{Command, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::aside::aside;
use super::auth::Caller;
use super::batch::{self, Batch};
use super::body::{BatchBody, Body};
use super::code::Code;
use super::holds;
use super::jobs;
use super::json::Json;
use super::path::OfJob;
use super::problem::{Problem, ProblemBody};
use super::trace::InTrace;
use super::wire::{self, AtMost, Id, Object, Seconds, Time};
use crate::service::Service;

/// Most items in one batch of settles.
pub(super) const SETTLE_MAX: usize = 1000;

/// What a nack without a reason is recorded as.
const NO_REASON: &str = "the worker said no";

/// What a worker may say about a delivery. Which members count depends on the verb.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Settle)]
pub(super) struct SettleBody {
    /// The delivery's token.
    lease: Option<String>,
    /// ack: what to keep as the result.
    #[serde(default, deserialize_with = "wire::present")]
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    /// ack, nack: what became of the effect; a handler may fail after it.
    effect: Option<EffectBody>,
    /// nack: whether another attempt may succeed (true).
    retryable: Option<bool>,
    /// nack, defer: why.
    #[schema(max_length = 500)]
    reason: Option<String>,
    /// defer: seconds to wait.
    #[schema(value_type = Option<f64>, minimum = 0)]
    retry_after: Option<Seconds>,
    /// defer: what waits, `queue` or `job`.
    scope: Option<ScopeBody>,
    /// extend: seconds from now.
    #[schema(value_type = Option<f64>)]
    seconds: Option<Seconds>,
}

/// What a worker says about the effect.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = EffectReport)]
pub(super) struct EffectBody {
    /// Whether it happened now, had happened before, or is none.
    outcome: EffectName,
    /// The key it is recorded under in the ledger.
    #[serde(default)]
    #[schema(max_length = 255)]
    key: Option<String>,
}

/// Whether an effect happened.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum EffectName {
    /// In this delivery.
    Applied,
    /// In an earlier one.
    Replayed,
    /// There is none.
    None,
}

/// What waits when a worker asks for time.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScopeBody {
    /// The whole queue.
    Queue,
    /// Only the job.
    Job,
}

impl ScopeBody {
    /// The domain's word.
    pub(super) fn scope(self) -> DeferScope {
        match self {
            Self::Queue => DeferScope::Queue,
            Self::Job => DeferScope::Job,
        }
    }
}

/// What to do with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verb {
    /// Done.
    Ack,
    /// Not done.
    Nack,
    /// Later.
    Defer,
    /// Keep it longer.
    Extend,
}

/// The answer to a settle.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Settled)]
pub(super) struct SettledView {
    /// The job.
    #[schema(value_type = String)]
    id: Id<JobId>,
    /// Always true: what is refused is a problem.
    accepted: bool,
    /// Where the job stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// When it is due again, if it will be delivered again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    due: Option<Time>,
    /// When the lease now ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Time>,
}

/// The longest key of a receipt: that of an idempotency key.
const RECEIPT_KEY_MAX: usize = 255;

impl SettleBody {
    fn token(&self) -> Result<Option<Token>, Violations> {
        let parse = |text: &String| {
            text.parse().map_err(|_| Violations::one("lease", "is not a token of this server"))
        };
        self.lease.as_ref().map(parse).transpose()
    }

    fn command(self, id: JobId, verb: Verb) -> Result<Command, Problem> {
        let token = self.token().map_err(Problem::from);
        let known = token.as_ref().ok().copied().flatten();
        let command = match verb {
            Verb::Extend => self.extend(id, known),
            Verb::Ack | Verb::Nack | Verb::Defer => self.settle(id, known, verb),
        };
        Problem::both(token, command).map(|(_, command)| command)
    }

    fn extend(self, id: JobId, token: Option<Token>) -> Result<Command, Problem> {
        let seconds = self.seconds.ok_or_else(|| Problem::field("seconds", "is required: 1 to 43200"))?;
        Ok(Command::Extend(Extend::new(id, token, seconds.0)?))
    }

    fn settle(self, id: JobId, token: Option<Token>, verb: Verb) -> Result<Command, Problem> {
        let effect = self.effect.clone().map(EffectBody::receipt).transpose()?;
        let report = Report { from_worker: true, effect, ..Report::default() };
        Ok(Command::Settle(Settle::new(id, token, self.outcome(verb)?, report)?))
    }

    fn outcome(self, verb: Verb) -> Result<Outcome, Problem> {
        match verb {
            Verb::Ack => Ok(Outcome::Done {
                result: self.result.map(wire::payload).transpose()?,
                effect: self.effect.map(EffectBody::receipt).transpose()?,
            }),
            Verb::Nack => {
                let error = self.reason.unwrap_or_else(|| NO_REASON.to_owned());
                let again = self.retryable.unwrap_or(true);
                Ok(if again { Outcome::Failed { error } } else { Outcome::Rejected { error } })
            }
            Verb::Defer | Verb::Extend => {
                let wait = self
                    .retry_after
                    .ok_or_else(|| Problem::field("retryAfter", "is required: seconds, 0 or more"))?;
                let scope = self.scope.map(ScopeBody::scope);
                Ok(Outcome::Backpressure { retry_after: Some(wait.0), scope, reason: self.reason })
            }
        }
    }
}

impl EffectBody {
    fn receipt(self) -> Result<Receipt, Problem> {
        let outcome = match self.outcome {
            EffectName::Applied => Effect::Applied,
            EffectName::Replayed => Effect::Replayed,
            EffectName::None => Effect::None,
        };
        if self.key.as_ref().is_some_and(|key| key.chars().count() > RECEIPT_KEY_MAX) {
            return Err(Problem::field(
                "effect.key",
                format!("must be at most {RECEIPT_KEY_MAX} characters"),
            ));
        }
        Ok(Receipt { outcome, key: self.key })
    }
}

impl SettledView {
    fn of(id: JobId, reply: &Reply) -> Result<Self, Problem> {
        let view = |status, due, deadline| Self { id: Id(id), accepted: true, status, due, deadline };
        match reply {
            Reply::Settled { state, due, .. } => Ok(view(Some(state.name()), due.map(Time), None)),
            Reply::Extended(deadline) => Ok(view(None, None, Some(Time(*deadline)))),
            _ => Err(Problem::new(Code::Internal, "the store gave no answer")),
        }
    }
}

/// A key that is for some queues only may settle jobs of those only. For all others the store alone decides, which saves
/// the look.
async fn may_settle(service: &Service, caller: &Caller, id: JobId) -> Result<(), Problem> {
    caller.may(Scope::Work)?;
    if caller.is_for_all() {
        return Ok(());
    }
    jobs::find_for(service, caller, Scope::Work, id).await.map(drop)
}

async fn settle(
    service: &Service,
    caller: &Caller,
    id: JobId,
    verb: Verb,
    (trace, body): (InTrace, &Body),
) -> Result<Response, Problem> {
    may_settle(service, caller, id).await?;
    let command = wire::read_or_default_checked(&body.bytes, |said: SettleBody| said.command(id, verb))?;
    let hold = holds::asked(&command);
    let tracing = service.telemetry.settling(&command, trace.0);
    let reply = service.commit.submit(command).await;
    tracing.into_iter().for_each(|tracing| tracing.end(&reply));
    let reply = reply?;
    holds::count(service, hold, &reply).await;
    Ok(Json(SettledView::of(id, &reply)?).into_response())
}

/// The work is done.
#[utoipa::path(post, path = "/v1/jobs/{id}/ack", tag = "work", params(("id" = String, Path, description = "The job")), request_body = Option<SettleBody>,
    responses((status = 200, description = "Completed, now or before", body = SettledView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn ack(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
    trace: InTrace,
    body: Body,
) -> Result<Response, Problem> {
    settle(&service, &caller, id, Verb::Ack, (trace, &body)).await
}

/// The attempt failed.
#[utoipa::path(post, path = "/v1/jobs/{id}/nack", tag = "work", params(("id" = String, Path, description = "The job")), request_body = Option<SettleBody>,
    responses((status = 200, description = "To be retried, or dead", body = SettledView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn nack(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
    trace: InTrace,
    body: Body,
) -> Result<Response, Problem> {
    settle(&service, &caller, id, Verb::Nack, (trace, &body)).await
}

/// Not now: no attempt is burned.
#[utoipa::path(post, path = "/v1/jobs/{id}/defer", tag = "work", params(("id" = String, Path, description = "The job")), request_body = SettleBody,
    responses((status = 200, description = "It waits", body = SettledView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn defer(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
    trace: InTrace,
    body: Body,
) -> Result<Response, Problem> {
    settle(&service, &caller, id, Verb::Defer, (trace, &body)).await
}

/// A heartbeat: the lease ends later.
#[utoipa::path(post, path = "/v1/jobs/{id}/extend", tag = "work", params(("id" = String, Path, description = "The job")), request_body = SettleBody,
    responses((status = 200, description = "The new deadline", body = SettledView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn extend(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
    trace: InTrace,
    body: Body,
) -> Result<Response, Problem> {
    settle(&service, &caller, id, Verb::Extend, (trace, &body)).await
}

/// One item of a batch of settles: the members of a settle, and which job and verb they are for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = SettleItem)]
pub(super) struct Item {
    /// The job.
    #[schema(required = true)]
    id: Option<String>,
    /// `ack`, `nack`, `defer` or `extend`.
    #[schema(required = true)]
    action: Option<Verb>,
    /// The delivery's token.
    lease: Option<String>,
    /// ack: what to keep as the result.
    #[serde(default, deserialize_with = "wire::present")]
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    /// ack, nack: what became of the effect; a handler may fail after it.
    effect: Option<EffectBody>,
    /// nack: whether another attempt may succeed (true).
    retryable: Option<bool>,
    /// nack, defer: why.
    #[schema(max_length = 500)]
    reason: Option<String>,
    /// defer: seconds to wait.
    #[schema(value_type = Option<f64>, minimum = 0)]
    retry_after: Option<Seconds>,
    /// defer: what waits, `queue` or `job`.
    scope: Option<ScopeBody>,
    /// extend: seconds from now.
    #[schema(value_type = Option<f64>)]
    seconds: Option<Seconds>,
}

impl Item {
    /// What it says, apart from the job and the verb.
    fn said(self) -> SettleBody {
        let Self { lease, result, effect, retryable, reason, retry_after, scope, seconds, .. } = self;
        SettleBody { lease, result, effect, retryable, reason, retry_after, scope, seconds }
    }
}

/// A batch of settles.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleBatch)]
pub(super) struct Items {
    /// 1 to 1000 settles.
    #[schema(value_type = Vec<Item>, required = true, min_items = 1, max_items = 1000)]
    items: Option<Vec<Box<RawValue>>>,
}

/// A batch of which every item can be read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Readable {
    items: AtMost<SETTLE_MAX, Object<Item>>,
}

impl Batch for Items {
    type Item = Item;
    type Readable = Readable;
    const MEMBER: &str = "items";
    const NOUN: &str = "settles";
    const MAX: usize = SETTLE_MAX;

    fn readable(whole: Readable) -> Vec<Object<Item>> {
        whole.items.0
    }

    fn raw(self) -> Vec<Box<RawValue>> {
        self.items.unwrap_or_default()
    }
}

/// The answer to one item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum SettleResult {
    /// It took effect, now or before.
    Settled(SettledView),
    /// It did not.
    Problem(ProblemBody),
}

/// The answers to a batch, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SettleAnswer {
    /// One per item.
    results: Vec<SettleResult>,
}

/// What an item asks for, with its job.
fn check(item: Item) -> Result<(JobId, Command), Problem> {
    let text = item.id.as_ref().ok_or_else(|| Problem::field("id", "is required"))?;
    let id: JobId = text.parse().map_err(|_| Problem::field("id", "is not the id of a job"))?;
    let verb =
        item.action.ok_or_else(|| Problem::field("action", "is required: ack, nack, defer or extend"))?;
    Ok((id, item.said().command(id, verb)?))
}

/// Settles many deliveries. Each succeeds or fails for itself.
#[utoipa::path(post, path = "/v1/settle", tag = "work", request_body = Items,
    responses((status = 200, description = "One answer per item, in order", body = SettleAnswer), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn settle_batch(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InTrace(trace): InTrace,
    body: BatchBody,
) -> Result<Response, Problem> {
    caller.may(Scope::Work)?;
    let items = aside(body.bytes.len(), || batch::read::<Items, _>(&body.bytes, check))?;
    let mut commands = Vec::with_capacity(items.len());
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        let allowed = match item {
            Ok((id, command)) => may_settle(&service, &caller, id).await.map(|()| (id, command)),
            Err(problem) => Err(problem),
        };
        places.push(allowed.map(|(id, command)| {
            let (hold, tracing) = (holds::asked(&command), service.telemetry.settling(&command, trace));
            commands.push(command);
            (id, hold, tracing)
        }));
    }
    let mut replies = service.commit.submit_all(commands).await.into_iter();
    let missing = || Problem::new(Code::Internal, "the store gave no answer");
    let mut results = Vec::with_capacity(places.len());
    for place in places {
        let reply = place.and_then(|(id, hold, tracing)| {
            let reply = replies.next().ok_or_else(missing)?;
            tracing.into_iter().for_each(|tracing| tracing.end(&reply));
            Ok(((id, hold), reply?))
        });
        if let Ok(((_, hold), reply)) = &reply {
            holds::count(&service, *hold, reply).await;
        }
        results.push(match reply.and_then(|((id, _), reply)| SettledView::of(id, &reply)) {
            Ok(settled) => SettleResult::Settled(settled),
            Err(problem) => SettleResult::Problem(problem.body()),
        });
    }
    Ok(Json(SettleAnswer { results }).into_response())
}
