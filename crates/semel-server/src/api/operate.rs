//! What operators and their machines ask: counts, health, metrics, what an error means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use semel_core::records::Scope;
use semel_store::group_commit::CommitError;
use semel_store::{Command, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::{Anybody, Caller};
use super::code::Code;
use super::json::Json;
use super::path::Named;
use super::problem::{Problem, ProblemBody};
use super::queues::CountsView;
use super::wire::Time;
use crate::metrics::text::Format;
use crate::service::Service;

/// How long a store that is ready takes at most to say so. Whoever asks does not wait for ever, and a database that is away
/// is waited for much longer than that by those who want something of it.
const READY_WITHIN: Duration = Duration::from_secs(3);

/// Counts of every queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Stats)]
pub(super) struct StatsView {
    /// The store's time.
    #[schema(value_type = String, format = DateTime)]
    now: Time,
    /// Commands waiting for a commit.
    waiting: usize,
    /// By queue.
    queues: BTreeMap<String, CountsView>,
}

/// Counts of the queues the key is for.
#[utoipa::path(get, path = "/v1/stats", tag = "operate",
    responses((status = 200, description = "Counts", body = StatsView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn stats(State(service): State<Arc<Service>>, caller: Caller) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let stats = service.store.stats().await?;
    let shown = stats.queues.iter().filter(|stats| caller.covers(&stats.queue));
    let queues = shown.map(|stats| (stats.queue.to_string(), CountsView::of(stats))).collect();
    let view = StatsView { now: Time(service.store.now()), waiting: service.commit.waiting(), queues };
    Ok(Json(view).into_response())
}

/// How a server is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the process lives. It says nothing about the store: restarting it would not mend a disk.
#[utoipa::path(get, path = "/healthz", tag = "operate", responses((status = 200, description = "It lives", body = Health)))]
pub(super) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether requests should be sent here: the store takes writes, and the server is not ending.
#[utoipa::path(get, path = "/readyz", tag = "operate",
    responses((status = 200, description = "Ready", body = Health), (status = 503, description = "Not ready", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Result<Json<Health>, Problem> {
    if service.stop.is_stopped() {
        return Err(Problem::new(Code::ShuttingDown, "the server is shutting down"));
    }
    // A slice of upkeep that has nothing to do is the smallest write there is.
    let written = service.commit.submit(Command::Rescue { limit: 1 });
    let Ok(answer) = tokio::time::timeout(READY_WITHIN, written).await else {
        return Err(Problem::new(Code::StoreBusy, "the store does not answer").retry_after(READY_WITHIN));
    };
    match answer {
        Ok(_) | Err(CommitError::Refused(_) | CommitError::Store(StoreError::Full(_))) => {
            Ok(Json(Health { status: "ok" }))
        }
        Err(error) => {
            let problem = Problem::from(error);
            Err(if problem.code.status() == StatusCode::SERVICE_UNAVAILABLE {
                problem
            } else {
                Problem::new(Code::StoreFailed, problem.detail())
            })
        }
    }
}

/// Metrics for Prometheus, as OpenMetrics or, for those who do not ask for that, in the older text format.
#[utoipa::path(get, path = "/metrics", tag = "operate", responses((status = 200, description = "Metrics", content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    _: Anybody,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    service.take_stock().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the gauges could not be brought up to date; they are shown as they last were");
    });
    let format = Format::wanted(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()));
    let text = format.write(&service.registry);
    let text = text.map_err(|_| Problem::new(Code::Internal, "the metrics could not be written down"))?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// What an error means and what to do about it.
#[utoipa::path(get, path = "/errors/{name}", tag = "operate", params(("name" = String, Path, description = "The code")),
    responses((status = 200, description = "The page", content_type = "text/markdown", body = String), (status = "4XX", description = "No such code", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn error_page(Named(name): Named) -> Result<Response, Problem> {
    let code =
        Code::named(&name).ok_or_else(|| Problem::new(Code::NotFound, "there is no such error code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], code.page()).into_response())
}
