//! Pulling: a worker leases jobs, and waits for them if there are none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::ids::{DeliveryId, JobId, Token};
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::{Group, QueueName};
use semel_core::payload::Payload;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::violation::Violations;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::aside::aside;
use super::auth::Caller;
use super::body::Body;
use super::json::Json;
use super::path::InQueue;
use super::problem::{Problem, ProblemBody};
use super::wire::{self, Id, Seconds, Time, raw};
use crate::service::Service;
use crate::telemetry::Context;

/// Longest a worker may wait for a job in one request.
const WAIT_MAX: u64 = 30;

/// A wish for jobs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Lease)]
pub(super) struct LeaseBody {
    /// How many at most (1).
    #[schema(minimum = 1, maximum = 256)]
    max: Option<u32>,
    /// Seconds to wait if there are none (0).
    #[schema(maximum = 30)]
    wait: Option<u64>,
    /// Seconds until they must be settled or extended; the queue's setting if absent.
    #[schema(value_type = Option<f64>)]
    lease_seconds: Option<Seconds>,
}

impl LeaseBody {
    /// What the worker asked for, checked; every offending field is named.
    fn check(&self, queue: QueueName) -> Result<LeaseRequest, Violations> {
        let mut wrong = Violations::default();
        wrong.require(self.wait.is_none_or(|wait| wait <= WAIT_MAX), "wait", || {
            format!("must be 0 to {WAIT_MAX} seconds")
        });
        let request = LeaseRequest::new(queue, self.max.unwrap_or(1), self.lease_seconds.map(|span| span.0));
        match request {
            Ok(request) => wrong.into_result().map(|()| request),
            Err(found) => {
                found.iter().for_each(|v| wrong.add(&v.field, &v.problem));
                Err(wrong)
            }
        }
    }
}

/// A job on its way to a worker, as a lease or a webhook gets it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub(crate) struct DeliveryView<'a> {
    /// The job.
    #[schema(value_type = String)]
    id: Id<JobId>,
    /// Its queue.
    queue: &'a str,
    /// The payload, byte for byte.
    #[schema(value_type = Value)]
    payload: Option<&'a RawValue>,
    /// The number of this attempt, from 1.
    attempt: u32,
    /// How many attempts there may be.
    max_attempts: u32,
    /// How often the job was deferred.
    defer_count: u32,
    /// When it was published.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// The sender's key.
    #[schema(required = true)]
    idempotency_key: Option<&'a str>,
    /// The token that settles this delivery.
    #[schema(value_type = String)]
    lease: Id<Token>,
    /// The name of this delivery, for logs.
    #[schema(value_type = String)]
    delivery_id: Id<DeliveryId>,
    /// The group.
    #[schema(required = true)]
    group: Option<&'a str>,
    /// What was published with the job.
    metadata: BTreeMap<&'a str, &'a str>,
    /// When the lease ends.
    #[schema(value_type = String, format = DateTime)]
    deadline: Time,
    /// The W3C trace context of this delivery, if its publish had one: the parent of what the worker does. A webhook gets it as
    /// a header, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    /// True, and there at all, if the job may have been done before without the server's knowing: it lost what it had
    /// answered, by a failover or a restored backup. Whoever keeps no ledger of effects should look before doing it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    possibly_applied: bool,
}

impl<'a> DeliveryView<'a> {
    /// A delivery, and whether its job may have been done before.
    pub(crate) fn of(delivery: &'a Delivery, possibly_applied: bool) -> Self {
        let spec = &*delivery.spec;
        Self {
            id: Id(delivery.id),
            queue: spec.queue.as_str(),
            payload: spec.payload.as_ref().map(raw),
            attempt: delivery.attempt,
            max_attempts: delivery.max_attempts,
            defer_count: delivery.deferrals,
            created_at: Time(spec.created_at),
            idempotency_key: spec.key.as_ref().map(Key::as_str),
            delivery_id: Id(delivery.token.into()),
            lease: Id(delivery.token),
            group: spec.group.as_ref().map(Group::as_str),
            metadata: spec.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            deadline: Time(delivery.deadline),
            traceparent: Context::of_delivery(delivery).map(|context| context.to_string()),
            possibly_applied,
        }
    }
}

/// Leased jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Leased<'a> {
    /// The deliveries; none if nothing came in time.
    jobs: Vec<DeliveryView<'a>>,
}

/// Leases jobs of a queue.
#[utoipa::path(post, path = "/v1/queues/{queue}/lease", tag = "work", params(("queue" = String, Path, description = "The queue")), request_body = Option<LeaseBody>,
    responses((status = 200, description = "Deliveries, maybe none", body = Leased), (status = "4XX", description = "Nothing was leased", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Nothing was leased", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn lease(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Work, &queue)?;
    let (request, wait) = wire::read_or_default_checked(&body.bytes, |asked: LeaseBody| {
        Ok((asked.check(queue)?, Duration::from_secs(asked.wait.unwrap_or(0))))
    })?;
    drop(body);
    let deliveries = wait_for_jobs(&service, request, wait).await?;
    let view = |delivery| DeliveryView::of(delivery, service.peers.possibly_applied(delivery));
    let bytes =
        deliveries.iter().filter_map(|delivery| delivery.spec.payload.as_ref()).map(Payload::len).sum();
    Ok(aside(bytes, || Json(Leased { jobs: deliveries.iter().map(view).collect() }).into_response()))
}

/// Leases, and while there is nothing waits for the queue's bell, for the next job's time, or for the end of the wait.
async fn wait_for_jobs(
    service: &Service,
    request: LeaseRequest,
    wait: Duration,
) -> Result<Vec<Delivery>, Problem> {
    let bell = service.news.bells.of(request.queue());
    let over = tokio::time::sleep(wait);
    tokio::pin!(over);
    loop {
        let rung = bell.notified();
        tokio::pin!(rung);
        // Enabled before the look, so that a job published between the look and the wait is heard.
        rung.as_mut().enable();
        let began = service.telemetry.began();
        let deliveries = service.store.lease(request.clone()).await?;
        if !deliveries.is_empty() {
            service.telemetry.handed_out(&deliveries, began);
            return Ok(deliveries);
        }
        must_exist(service, request.queue()).await?;
        if wait.is_zero() || service.stop.is_stopped() {
            return Ok(deliveries);
        }
        let due = service.store.next_due(request.queue()).await?;
        tokio::select! {
            // The end of the wait first: a bell that never stops must not put it off.
            biased;
            () = &mut over => return Ok(Vec::new()),
            () = service.stop.stopped() => return Ok(Vec::new()),
            () = rung => {}
            () = service.until_due(due) => {}
        }
    }
}

/// Nothing to lease may mean that there is no such queue, which a worker should know. Dev mode makes queues when they are
/// published to, so there a worker may come first.
async fn must_exist(service: &Service, queue: &QueueName) -> Result<(), Problem> {
    if service.options.dev || service.store.queue(queue).await?.is_some() {
        return Ok(());
    }
    Err(Refusal::QueueNotFound(queue.clone()).into())
}
