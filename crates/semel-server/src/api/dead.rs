//! Dead letters: listed, grouped by what they died of, replayed, purged.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::lifecycle;
use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::replay::{Preflight, ReplayCounts, ReplayRecord, ReplayState, error_group, preflight};
use semel_core::time::Timestamp;
use semel_store::group_commit::CommitError;
use semel_store::{Command, Cursor, JobQuery, Page};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Caller;
use super::body::Body;
use super::jobs::{self, JobPage};
use super::json::Json;
use super::path::{InQueue, OfJob, Params};
use super::problem::{Problem, ProblemBody};
use super::replays::{FilterBody, ReplayView};
use super::view::{Configs, JobView};
use super::wire::{self, Time};
use crate::service::Service;
use crate::upkeep::page_of;

/// How many dead letters one request groups or purges. The rest follows with the cursor it answers with: a request must end
/// in a time that a caller waits for.
const SCAN_MAX: usize = 5000;

/// How many pages one request reads for that. A page may be empty although more follow.
const PAGES_MAX: usize = 64;

/// Dead letters, as they are or grouped.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum DeadAnswer<'a> {
    /// As they are.
    Jobs(JobPage<'a>),
    /// Grouped.
    Groups(ErrorGroups),
}

/// Dead letters grouped by what they died of.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorGroups {
    /// The largest first.
    groups: Vec<ErrorGroup>,
    /// How many dead letters were looked at.
    looked_at: usize,
    /// Whether those were all. If not, the counts are those of the newest ones.
    complete: bool,
    /// Where to go on; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// Dead letters that died of the same.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorGroup {
    /// The error, without what varies from job to job; null if none is kept. A replay takes it as its filter.
    #[schema(required = true)]
    error: Option<String>,
    /// How many.
    count: u64,
    /// One of them, the newest.
    example: String,
    /// When the first of them died.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    first_at: Option<Time>,
    /// When the last of them died.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_at: Option<Time>,
    /// What is known about their effects.
    preflight: PreflightCounts,
}

/// What is known about the effects of dead letters.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Preflight)]
pub(super) struct PreflightCounts {
    /// It has happened: a replay needs a ledger, or it happens again.
    applied: u64,
    /// It has not happened.
    not_applied: u64,
    /// Nobody can tell.
    unknown: u64,
}

impl ErrorGroup {
    fn new(error: Option<String>, example: JobId) -> Self {
        let preflight = PreflightCounts::default();
        Self { error, count: 0, example: example.to_string(), first_at: None, last_at: None, preflight }
    }

    fn add(&mut self, job: &Job) {
        self.count += 1;
        match preflight(job) {
            Preflight::Applied => self.preflight.applied += 1,
            Preflight::NotApplied => self.preflight.not_applied += 1,
            Preflight::Unknown => self.preflight.unknown += 1,
        }
        let Some(died) = job.progress.finished_at else { return };
        let pick = |known: Option<Time>, better: fn(Timestamp, Timestamp) -> Timestamp| {
            Some(Time(known.map_or(died, |known| better(known.0, died))))
        };
        self.first_at = pick(self.first_at, Timestamp::min);
        self.last_at = pick(self.last_at, Timestamp::max);
    }
}

async fn config_of(service: &Service, queue: &QueueName) -> Result<QueueConfig, Problem> {
    let record = service.store.queue(queue).await?;
    Ok(record.ok_or_else(|| Refusal::QueueNotFound(queue.clone()))?.config)
}

/// A walk along the dead letters of a queue that ends after a bounded number of them.
struct Walk<'a> {
    service: &'a Service,
    query: JobQuery,
    looked_at: usize,
    pages: usize,
    ended: bool,
}

impl<'a> Walk<'a> {
    fn new(service: &'a Service, query: JobQuery, config: &QueueConfig) -> Self {
        let query = JobQuery { limit: page_of(config), ..query };
        Self { service, query, looked_at: 0, pages: 0, ended: false }
    }

    async fn next(&mut self) -> Result<Option<Vec<Job>>, Problem> {
        if self.ended || self.looked_at >= SCAN_MAX || self.pages >= PAGES_MAX {
            return Ok(None);
        }
        let Page { items, next } = self.service.store.jobs(self.query.clone()).await?;
        self.looked_at += items.len();
        self.pages += 1;
        self.ended = next.is_none();
        self.query.cursor = next;
        Ok(Some(items))
    }

    fn next_cursor(&self) -> Option<String> {
        self.query.cursor.map(|cursor: Cursor| cursor.to_string())
    }
}

/// Reads what a listing of dead letters asks for: the parameters of a listing of jobs, and whether to group them.
fn dead_query(queue: QueueName, params: Vec<(String, String)>) -> Result<(JobQuery, bool), Problem> {
    let (grouping, rest): (Vec<_>, Vec<_>) = params.into_iter().partition(|(name, _)| name == "groupBy");
    if let Some((name, _)) = rest.iter().find(|(name, _)| name == "queue" || name == "status") {
        return Err(Problem::field(name, "is not a parameter here: the path says it"));
    }
    if grouping.len() > 1 || grouping.iter().any(|(_, value)| value != "error") {
        return Err(Problem::field("groupBy", "must be error, once"));
    }
    let query = jobs::query_of(rest)?;
    let query = JobQuery { queue: Some(queue), state: Some(lifecycle::State::Dead), ..query };
    Ok((query, !grouping.is_empty()))
}

async fn group(service: &Service, query: JobQuery, config: &QueueConfig) -> Result<ErrorGroups, Problem> {
    let mut walk = Walk::new(service, query, config);
    let mut by_error: HashMap<Option<String>, ErrorGroup> = HashMap::new();
    while let Some(jobs) = walk.next().await? {
        for job in &jobs {
            let error = job.progress.last_error().map(error_group);
            by_error.entry(error.clone()).or_insert_with(|| ErrorGroup::new(error, job.id)).add(job);
        }
    }
    let mut groups: Vec<_> = by_error.into_values().collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.error.cmp(&b.error)));
    let (looked_at, complete, next_cursor) = (walk.looked_at, walk.ended, walk.next_cursor());
    Ok(ErrorGroups { groups, looked_at, complete, next_cursor })
}

/// The dead letters of a queue, newest first; or grouped by what they died of.
#[utoipa::path(get, path = "/v1/queues/{queue}/dead", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue"),
        ("groupBy" = Option<String>, Query, description = "`error`: groups instead of jobs"),
        ("key" = Option<String>, Query, description = "Only this key"), ("group" = Option<String>, Query, description = "Only this group"),
        ("from" = Option<String>, Query, description = "Published at or after this time"), ("to" = Option<String>, Query, description = "Published before this time"),
        ("duplicated" = Option<u32>, Query, minimum = 1, description = "Only jobs whose key or effect came back at least this often"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "How many at most (50)"), ("cursor" = Option<String>, Query, description = "Where the page before ended"),
        ("metadata.NAME" = Option<String>, Query, description = "Only jobs with this metadata")),
    responses((status = 200, description = "Dead letters, or groups of them", body = DeadAnswer), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_dead(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    Params(params): Params,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Read, &queue)?;
    let (query, grouped) = dead_query(queue.clone(), params)?;
    let config = config_of(&service, &queue).await?;
    if grouped {
        return Ok(Json(DeadAnswer::Groups(group(&service, query, &config).await?)).into_response());
    }
    let page = service.store.jobs(query).await?;
    let configs = Configs::of(service.store.as_ref(), &page.items).await?;
    let jobs = page.items.iter().map(|job| configs.view(job)).collect();
    let next_cursor = page.next.map(|cursor| cursor.to_string());
    Ok(Json(DeadAnswer::Jobs(JobPage { jobs, next_cursor })).into_response())
}

/// What a purge came to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Purged {
    /// How many dead letters are gone. Their keys hold until their windows end.
    purged: u64,
    /// Whether those were all. If not, ask again with the cursor.
    complete: bool,
    /// Where to go on; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// Purges a page. One that was replayed meanwhile is no dead letter any more, and one without payload was purged before.
async fn purge_page(service: &Service, jobs: &[Job]) -> (u64, Option<CommitError>) {
    let whole = jobs.iter().filter(|job| job.spec.payload.is_some());
    let purges = whole.map(|job| Command::Purge(job.id)).collect();
    let (mut purged, mut trouble) = (0, None);
    for outcome in service.commit.submit_all(purges).await {
        match outcome {
            Ok(_) => purged += 1,
            Err(CommitError::Refused(_)) => {}
            Err(error) => trouble = Some(error),
        }
    }
    (purged, trouble)
}

/// Purges all dead letters of a queue. There is no way back, so the name of the queue is asked for a second time.
#[utoipa::path(delete, path = "/v1/queues/{queue}/dead", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue"), ("confirm" = String, Query, description = "The queue, once more"), ("cursor" = Option<String>, Query, description = "Where the purge before ended")),
    responses((status = 200, description = "How many are gone", body = Purged), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn purge_dead(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    params: Params,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    let params = params.only(&["confirm", "cursor"])?;
    if params.get("confirm").map(String::as_str) != Some(queue.as_str()) {
        let words = format!("must be {queue}: every dead letter of it is about to go, and none comes back");
        return Err(Problem::field("confirm", words));
    }
    let cursor = params.get("cursor").map(|text| text.parse()).transpose()?;
    let config = config_of(&service, &queue).await?;
    let query =
        JobQuery { queue: Some(queue), state: Some(lifecycle::State::Dead), cursor, ..JobQuery::default() };
    let mut walk = Walk::new(&service, query, &config);
    let mut purged = 0;
    loop {
        let at = walk.query.cursor;
        let Some(jobs) = walk.next().await? else { break };
        let (gone, trouble) = purge_page(&service, &jobs).await;
        purged += gone;
        match trouble {
            // What is gone must be told, so a page that failed halfway is left for the next request.
            Some(_) if purged > 0 => {
                let next_cursor = at.map(|cursor| cursor.to_string());
                return Ok(Json(Purged { purged, complete: false, next_cursor }).into_response());
            }
            Some(error) => return Err(error.into()),
            None => {}
        }
    }
    let (complete, next_cursor) = (walk.ended, walk.next_cursor());
    Ok(Json(Purged { purged, complete, next_cursor }).into_response())
}

/// Purges one dead letter. Its key holds until its window ends.
#[utoipa::path(delete, path = "/v1/queues/{queue}/dead/{id}", tag = "dead letters", params(("queue" = String, Path, description = "The queue"), ("id" = String, Path, description = "The job")),
    responses((status = 204, description = "Gone"), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn purge_one(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    OfJob(id): OfJob,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    if jobs::find(&service, id).await?.spec.queue != queue {
        return Err(Refusal::JobNotFound(id).into());
    }
    service.commit.submit(Command::Purge(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Gives one dead letter another life: same id, same key.
#[utoipa::path(post, path = "/v1/jobs/{id}/replay", tag = "dead letters", params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job, pending again", body = JobView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn replay_job(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
) -> Result<Response, Problem> {
    jobs::find_for(&service, &caller, Scope::Manage, id).await?;
    service.commit.submit(Command::Replay(id)).await?;
    let job = jobs::find(&service, id).await?;
    jobs::show(&service, &job).await
}

/// A replay of many.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NewReplay)]
pub(super) struct ReplayBody {
    /// Which dead letters; all if it is left out.
    filter: FilterBody,
    /// Most jobs replayed per second; as fast as the store takes them if it is left out.
    #[schema(minimum = 1)]
    rate: Option<u32>,
    /// Only count what would be replayed, and what is known of their effects.
    dry_run: bool,
}

/// Ids of tasks order by time, so that a listing shows them in the order in which they were asked for.
fn new_id(now: Timestamp) -> String {
    format!("rpl_{:011x}{:08x}", now.millis(), rand::random::<u32>())
}

/// Replays dead letters of a queue in the background, newest first. Those that die after this are not replayed.
#[utoipa::path(post, path = "/v1/queues/{queue}/dead/replay", tag = "dead letters", params(("queue" = String, Path, description = "The queue")), request_body = Option<ReplayBody>,
    responses((status = 202, description = "The task that does it", body = ReplayView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn replay_dead(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Manage, &queue)?;
    let asked: ReplayBody = wire::read_or_default(&body.bytes)?;
    let now = service.store.now();
    let task = ReplayRecord {
        id: new_id(now),
        queue,
        filter: asked.filter.into_filter()?,
        rate: asked.rate,
        dry_run: asked.dry_run,
        state: ReplayState::Running,
        created_at: now,
        finished_at: None,
        cursor: None,
        counts: ReplayCounts::default(),
    };
    service.commit.submit(Command::PutReplay(Box::new(task.clone()))).await?;
    let place = [(header::LOCATION, format!("/v1/replays/{}", task.id))];
    Ok((StatusCode::ACCEPTED, place, Json(ReplayView::of(&task))).into_response())
}

pub(super) fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(list_dead, purge_dead))
        .routes(routes!(purge_one))
        .routes(routes!(replay_dead))
        .routes(routes!(replay_job))
}

#[cfg(test)]
#[path = "dead/tests.rs"]
mod tests;
