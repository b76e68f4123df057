//! Jobs: one, some, and waiting for one to end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lifecycle;
use semel_core::name::{Group, QueueName};
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::violation::Violations;
use semel_store::{Command, JobQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::json::Json;
use super::path::{OfJob, Params, Wait};
use super::problem::{Problem, ProblemBody};
use super::view::{Configs, JobView};
use super::wire::Time;
use crate::service::Service;

/// How often a caller who waits looks for itself, in case another node ended the job.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks a job up.
pub(super) async fn find(service: &Service, id: JobId) -> Result<Job, Problem> {
    Ok(service.store.job(id).await?.ok_or(Refusal::JobNotFound(id))?)
}

/// Looks a job up for somebody who wants to do something to it.
pub(super) async fn find_for(
    service: &Service,
    caller: &Caller,
    scope: Scope,
    id: JobId,
) -> Result<Job, Problem> {
    caller.may(scope)?;
    let job = find(service, id).await?;
    caller.may_in(scope, &job.spec.queue)?;
    Ok(job)
}

/// Waits until a job has ended or the time is over, and returns it as it is then.
pub(super) async fn wait_for(service: &Service, id: JobId, wait: Option<Duration>) -> Result<Job, Problem> {
    let Some(wait) = wait else { return find(service, id).await };
    let line = service.news.ends.wait_for(id);
    let over = tokio::time::sleep(wait);
    tokio::pin!(over);
    loop {
        let end = line.end();
        tokio::pin!(end);
        // Enabled before the look, so that an end between the look and the wait is heard.
        end.as_mut().enable();
        let job = find(service, id).await?;
        if job.progress.state.is_finished() {
            return Ok(job);
        }
        tokio::select! {
            () = &mut over => return Ok(job),
            () = service.stop.stopped() => return Ok(job),
            () = end => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

/// A job as an answer.
pub(super) async fn show(service: &Service, job: &Job) -> Result<Response, Problem> {
    let jobs = std::slice::from_ref(job);
    Ok(Json(Configs::of(service.store.as_ref(), jobs).await?.view(job)).into_response())
}

/// One job. With `wait`, once it has ended or the time is over.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "The job"), ("wait" = Option<u64>, Query, maximum = 60, description = "Seconds to wait for its end")),
    responses((status = 200, description = "The job", body = JobView), (status = "4XX", description = "Not done", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn get_job(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
    Wait(wait): Wait,
) -> Result<Response, Problem> {
    find_for(&service, &caller, Scope::Read, id).await?;
    let job = wait_for(&service, id, wait).await?;
    show(&service, &job).await
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobPage<'a> {
    /// The jobs, newest first. There may be fewer than asked for although more follow.
    pub(super) jobs: Vec<JobView<'a>>,
    /// Where the next page starts; null at the end.
    #[schema(required = true)]
    pub(super) next_cursor: Option<String>,
}

/// Jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs",
    params(
        ("queue" = Option<String>, Query, description = "Only this queue"), ("status" = Option<String>, Query, description = "Only this status"),
        ("key" = Option<String>, Query, description = "Only this key"), ("group" = Option<String>, Query, description = "Only this group"),
        ("from" = Option<String>, Query, description = "Published at or after this time"), ("to" = Option<String>, Query, description = "Published before this time"),
        ("duplicated" = Option<u32>, Query, minimum = 1, description = "Only jobs whose key or effect came back at least this often"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "How many at most (50)"), ("cursor" = Option<String>, Query, description = "Where the page before ended"),
        ("metadata.NAME" = Option<String>, Query, description = "Only jobs with this metadata")),
    responses((status = 200, description = "A page of jobs", body = JobPage), (status = "4XX", description = "Not done", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_jobs(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params,
) -> Result<Response, Problem> {
    let query = query_of(params)?;
    match &query.queue {
        Some(queue) => caller.may_in(Scope::Read, queue)?,
        None => caller.may_everywhere(Scope::Read)?,
    }
    page(&service, query).await
}

/// One page of a listing, as an answer.
pub(super) async fn page(service: &Service, query: JobQuery) -> Result<Response, Problem> {
    let page = service.store.jobs(query).await?;
    let configs = Configs::of(service.store.as_ref(), &page.items).await?;
    let jobs = page.items.iter().map(|job| configs.view(job)).collect();
    Ok(Json(JobPage { jobs, next_cursor: page.next.map(|cursor| cursor.to_string()) }).into_response())
}

/// Reads the parameters of a listing; every one that is wrong is named.
pub(super) fn query_of(params: Vec<(String, String)>) -> Result<JobQuery, Violations> {
    let mut query = JobQuery::default();
    let mut wrong = Violations::default();
    for (name, value) in params {
        if let Err(problem) = set(&mut query, &name, value) {
            wrong.add(name, problem);
        }
    }
    if let Err(found) = query.validate() {
        found.iter().for_each(|v| wrong.add(&v.field, &v.problem));
    }
    wrong.into_result()?;
    Ok(query)
}

fn set(query: &mut JobQuery, name: &str, value: String) -> Result<(), String> {
    let words =
        |violations: Violations| violations.iter().map(|v| v.problem.clone()).collect::<Vec<_>>().join("; ");
    match name {
        "queue" => query.queue = Some(QueueName::try_from(value.as_str()).map_err(words)?),
        "status" => query.state = Some(state_named(&value)?),
        "key" => query.key = Some(Key::try_from(value.as_str()).map_err(words)?),
        "group" => query.group = Some(Group::try_from(value.as_str()).map_err(words)?),
        "from" => query.from = Some(Time::parse(&value)?.0),
        "to" => query.to = Some(Time::parse(&value)?.0),
        "limit" => query.limit = number(&value)?,
        "duplicated" => query.duplicated = Some(at_least_one(&value)?),
        "cursor" => query.cursor = Some(value.parse().map_err(words)?),
        _ => match name.strip_prefix("metadata.") {
            Some(entry) => query.metadata.push((entry.to_owned(), value)),
            None => return Err("is not a parameter here".to_owned()),
        },
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "must be a whole number".to_owned())
}

fn at_least_one(text: &str) -> Result<u32, String> {
    let found = number(text).ok().filter(|number| *number > 0);
    found.ok_or_else(|| "must be a whole number, 1 or more".to_owned())
}

fn state_named(name: &str) -> Result<lifecycle::State, String> {
    let known = lifecycle::State::ALL.into_iter().find(|state| state.name() == name);
    known.ok_or_else(|| {
        let names: Vec<_> = lifecycle::State::ALL.iter().map(|state| state.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// Calls a job off.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job, cancelled", body = JobView), (status = "4XX", description = "Not done", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn cancel_job(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OfJob(id): OfJob,
) -> Result<Response, Problem> {
    find_for(&service, &caller, Scope::Manage, id).await?;
    service.commit.submit(Command::Cancel(id)).await?;
    let job = find(&service, id).await?;
    show(&service, &job).await
}
