//! Replays of many dead letters: tasks that run in the background, can be watched and called off.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::name::Group;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::replay::{Preflight, ReplayCounts, ReplayFilter, ReplayRecord, ReplayState};
use semel_core::violation::Violations;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Caller;
use super::json::Json;
use super::path::Named;
use super::problem::{Problem, ProblemBody};
use super::wire::Time;
use crate::service::Service;
use crate::upkeep;

/// Which dead letters; all of them if nothing is said.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = ReplayFilter)]
pub(super) struct FilterBody {
    /// Only those that died of this error: the `error` of a group, as `groupBy=error` shows it.
    error: Option<String>,
    /// Only those of this group.
    #[schema(max_length = 255)]
    group: Option<String>,
    /// Only those that died at or after this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    from: Option<Time>,
    /// Only those that died before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    to: Option<Time>,
    /// Only those of whose effect this is known: `applied`, `notApplied`, `unknown`. Any if it is empty.
    #[schema(value_type = Vec<String>)]
    effects: Vec<Preflight>,
}

impl FilterBody {
    /// The domain's filter.
    pub(super) fn into_filter(self) -> Result<ReplayFilter, Violations> {
        let Self { error, group, from, to, effects } = self;
        let wrong = |_| Violations::one("filter.group", "must be 1 to 255 printable characters");
        let group = group.map(|group| Group::try_from(group.as_str()).map_err(wrong)).transpose()?;
        Ok(ReplayFilter { error, group, from: from.map(|time| time.0), to: to.map(|time| time.0), effects })
    }

    fn of(filter: &ReplayFilter) -> Self {
        Self {
            error: filter.error.clone(),
            group: filter.group.as_ref().map(ToString::to_string),
            from: filter.from.map(Time),
            to: filter.to.map(Time),
            effects: filter.effects.clone(),
        }
    }
}

/// A replay task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Replay)]
pub(super) struct ReplayView {
    /// Its id.
    id: String,
    /// The queue.
    queue: String,
    /// Which of its dead letters.
    filter: FilterBody,
    /// Most jobs replayed per second; null is as fast as the store takes them.
    #[schema(required = true)]
    rate: Option<u32>,
    /// Whether it only counts.
    dry_run: bool,
    /// `running`, `done` or `cancelled`.
    #[schema(value_type = String)]
    state: ReplayState,
    /// When it was asked for. What dies later is not replayed.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    finished_at: Option<Time>,
    /// What it has done so far.
    counts: ReplayCountsView,
}

/// What a replay has done so far.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayCounts)]
pub(super) struct ReplayCountsView {
    /// Dead letters looked at.
    looked_at: u64,
    /// Those that the filter takes.
    matched: u64,
    /// Those that were replayed.
    replayed: u64,
    /// Those that could not be: somebody else replayed or purged them, or their payload is no longer kept.
    refused: u64,
    /// Of the matched, those whose effect has happened: a replay needs a ledger, or it happens again.
    applied: u64,
    /// Of the matched, those whose effect has not happened.
    not_applied: u64,
    /// Of the matched, those of which nobody can tell.
    unknown: u64,
}

impl ReplayView {
    /// A task.
    pub(super) fn of(task: &ReplayRecord) -> Self {
        let ReplayCounts { looked_at, matched, replayed, refused, applied, not_applied, unknown } =
            task.counts;
        Self {
            id: task.id.clone(),
            queue: task.queue.to_string(),
            filter: FilterBody::of(&task.filter),
            rate: task.rate,
            dry_run: task.dry_run,
            state: task.state,
            created_at: Time(task.created_at),
            finished_at: task.finished_at.map(Time),
            counts: ReplayCountsView { looked_at, matched, replayed, refused, applied, not_applied, unknown },
        }
    }
}

/// Replay tasks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReplayList {
    /// The oldest first.
    replays: Vec<ReplayView>,
}

async fn find(service: &Service, caller: &Caller, scope: Scope, id: String) -> Result<ReplayRecord, Problem> {
    caller.may(scope)?;
    let task = service.store.replays().await?.into_iter().find(|task| task.id == id);
    let task = task.ok_or(Refusal::RecordNotFound { kind: "replay", name: id })?;
    caller.may_in(scope, &task.queue)?;
    Ok(task)
}

/// The replay tasks of all queues the key is for. Those that have ended are kept for a week.
#[utoipa::path(get, path = "/v1/replays", tag = "dead letters",
    responses((status = 200, description = "The tasks", body = ReplayList), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_replays(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let tasks = service.store.replays().await?;
    let shown = tasks.iter().filter(|task| caller.covers(&task.queue)).map(ReplayView::of);
    Ok(Json(ReplayList { replays: shown.collect() }).into_response())
}

/// One replay task.
#[utoipa::path(get, path = "/v1/replays/{name}", tag = "dead letters", params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "The task", body = ReplayView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn get_replay(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named,
) -> Result<Response, Problem> {
    let task = find(&service, &caller, Scope::Read, id).await?;
    Ok(Json(ReplayView::of(&task)).into_response())
}

/// Calls a replay off. What it had replayed stays replayed; one that has ended stays as it is.
#[utoipa::path(delete, path = "/v1/replays/{name}", tag = "dead letters", params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "The task, no longer running", body = ReplayView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn cancel_replay(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named,
) -> Result<Response, Problem> {
    find(&service, &caller, Scope::Manage, id.clone()).await?;
    let task = upkeep::replays::cancel(&service, &id).await?;
    let task = task.ok_or(Refusal::RecordNotFound { kind: "replay", name: id })?;
    Ok(Json(ReplayView::of(&task)).into_response())
}

pub(super) fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new().routes(routes!(list_replays)).routes(routes!(get_replay, cancel_replay))
}

#[cfg(test)]
mod tests {
    use semel_core::queue::QueueConfig;
    use serde_json::json;

    use crate::upkeep::stage::Stage;

    #[tokio::test]
    async fn a_task_is_listed_shown_and_called_off() {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        let filter = json!({ "error": "boom N", "group": "g", "from": "2026-11-01T00:00:00.000Z", "to": null, "effects": ["notApplied"] });
        let asked = json!({ "filter": filter, "rate": 5, "dryRun": true });
        let (status, task) = stage.ask("POST", "/v1/queues/q/dead/replay", Some(asked)).await;
        assert_eq!(status, 202, "{task}");
        assert_eq!(task["filter"], filter);
        assert_eq!(
            (&task["state"], &task["rate"], &task["dryRun"]),
            (&json!("running"), &json!(5), &json!(true))
        );
        let path = format!("/v1/replays/{}", task["id"].as_str().unwrap());
        assert_eq!(stage.ask("GET", &path, None).await, (200, task.clone()));
        assert_eq!(stage.ask("GET", "/v1/replays", None).await, (200, json!({ "replays": [task] })));
        for _ in 0..2 {
            let (status, task) = stage.ask("DELETE", &path, None).await;
            assert_eq!((status, &task["state"]), (200, &json!("cancelled")), "once or twice is the same");
        }
        let (status, problem) = stage.ask("GET", "/v1/replays/other", None).await;
        assert_eq!((status, &problem["code"]), (404, &json!("record_not_found")));
    }
}
