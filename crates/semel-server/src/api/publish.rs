//! Publishing: one job, or many with an answer for each.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use semel_core::ids::JobId;
use semel_core::job::Overrides;
use semel_core::key::Key;
use semel_core::name::{Group, QueueName};
use semel_core::payload::Payload;
use semel_core::publish::{Draft, METADATA_MAX, Publish, Published};
use semel_core::queue::QueueConfig;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use semel_core::violation::Violations;
use semel_store::group_commit::CommitError;
use semel_store::{Command, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::aside::aside;
use super::auth::Caller;
use super::batch::{self, Batch, Checked};
use super::body::{BatchBody, Body};
use super::jobs;
use super::json::Json;
use super::path::{InQueue, Wait};
use super::problem::{Problem, ProblemBody};
use super::queues::RetryBody;
use super::trace::InTrace;
use super::view::{Configs, JobView};
use super::wire::{self, AtMost, Id, Object, Seconds, Time, WholeSeconds};
use crate::service::Service;
use crate::telemetry::context::{self, Context};
use crate::telemetry::{Publishing, Telemetry};

/// Most jobs in one batch.
pub(super) const BATCH_MAX: usize = 1000;

/// A publish.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Publish)]
pub(super) struct PublishBody {
    /// Any JSON value, kept byte for byte.
    #[serde(default, deserialize_with = "wire::present")]
    #[schema(value_type = Value, required = true)]
    payload: Option<Box<RawValue>>,
    /// 1 to 255 characters; or the header `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Seconds until it may run.
    #[schema(value_type = Option<u64>, maximum = 31_536_000)]
    delay: Option<WholeSeconds>,
    /// Or the time when.
    #[schema(value_type = Option<String>, format = DateTime)]
    run_at: Option<Time>,
    /// -100 to 100, higher first.
    #[schema(value_type = Option<i64>, minimum = -100, maximum = 100)]
    priority: Option<i64>,
    /// Ordering and fairness.
    #[schema(min_length = 1, max_length = 255)]
    group: Option<String>,
    /// Attempts it may use.
    #[schema(minimum = 1)]
    max_attempts: Option<u32>,
    /// The waits between them.
    retry: Option<RetryBody>,
    /// Seconds one delivery may take.
    #[schema(value_type = Option<f64>)]
    timeout: Option<Seconds>,
    /// Delivered with the job, and searchable.
    metadata: Option<BTreeMap<String, String>>,
    /// Seconds its key holds after its end.
    #[schema(value_type = Option<f64>)]
    window: Option<Seconds>,
}

/// A batch of publishes.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PublishBatch)]
pub(super) struct BatchOfPublishes {
    /// 1 to 1000 publishes.
    #[schema(value_type = Vec<PublishBody>, required = true, min_items = 1, max_items = 1000)]
    jobs: Option<Vec<Box<RawValue>>>,
}

/// A batch of which every item can be read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Readable {
    jobs: AtMost<BATCH_MAX, Object<PublishBody>>,
}

impl Batch for BatchOfPublishes {
    type Item = PublishBody;
    type Readable = Readable;
    const MEMBER: &str = "jobs";
    const NOUN: &str = "publishes";
    const MAX: usize = BATCH_MAX;

    fn readable(whole: Readable) -> Vec<Object<PublishBody>> {
        whole.jobs.0
    }

    fn raw(self) -> Vec<Box<RawValue>> {
        self.jobs.unwrap_or_default()
    }
}

/// The answer to a publish.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Published)]
pub(super) struct PublishedView<'a> {
    /// The job, new or found.
    #[schema(value_type = String)]
    id: Id<JobId>,
    /// Its queue.
    queue: &'a str,
    /// Where it stands.
    status: &'static str,
    /// When it was published first.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// Whether an earlier publish made it.
    deduplicated: bool,
    /// Whether the payload is that of the first publish.
    payload_matches: bool,
    /// When the key stops holding; null while the job is unfinished or has no key.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    key_expires_at: Option<Time>,
}

impl<'a> PublishedView<'a> {
    fn of(queue: &'a QueueName, published: &Published) -> Self {
        Self {
            id: Id(published.id),
            queue: queue.as_str(),
            status: published.state.name(),
            created_at: Time(published.created_at),
            deduplicated: published.deduplicated,
            payload_matches: published.payload_matches,
            key_expires_at: published.key_expires_at.map(Time),
        }
    }
}

/// The answer to one item of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum BatchItem<'a> {
    /// It was published, now or before.
    Published(PublishedView<'a>),
    /// It was not.
    Problem(ProblemBody),
}

/// The answers to a batch, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchAnswer<'a> {
    /// One per item.
    results: Vec<BatchItem<'a>>,
}

impl PublishBody {
    /// Begins to record a publish that names its trace, in its metadata or in a header, or gets one now.
    fn traced(&mut self, telemetry: &Telemetry, of_request: Option<Context>) -> Publishing {
        let named = self.metadata.as_mut().and_then(|metadata| metadata.get_mut(context::NAME));
        let own = named.as_ref().and_then(|text| Context::parse(text));
        let tracing = telemetry.publishing(own.or(of_request));
        if let (Some(named), Some(kept), Some(_)) = (named, tracing.kept(), own) {
            *named = kept.to_string();
        }
        self.keep(tracing.kept());
        tracing
    }

    /// Keeps the trace with the job, where the delivery finds it. What is there already stays.
    fn keep(&mut self, trace: Option<Context>) {
        if let Some(trace) = trace {
            let metadata = self.metadata.get_or_insert_default();
            if metadata.len() < METADATA_MAX {
                metadata.entry(context::NAME.to_owned()).or_insert_with(|| trace.to_string());
            }
        }
    }

    /// What the sender asked for, checked; every offending field is named.
    fn check(self, queue: QueueName, header_key: Option<Key>, caller: &Caller) -> Result<Publish, Problem> {
        let mut wrong = Violations::default();
        let note = |wrong: &mut Violations, found: Violations| {
            found.iter().for_each(|v| wrong.add(&v.field, &v.problem));
        };
        let key = self.idempotency_key.as_deref().map(Key::try_from).transpose();
        let key = key.unwrap_or_else(|found| {
            note(&mut wrong, found);
            None
        });
        if key.is_some() && header_key.is_some() && key != header_key {
            wrong.add(
                "idempotencyKey",
                "and the header Idempotency-Key differ: send one, or the same in both",
            );
        }
        let group = self.group.as_deref().map(Group::try_from).transpose();
        let group = group.unwrap_or_else(|found| {
            note(&mut wrong, found);
            None
        });
        let payload = self.payload.map(wire::payload);
        let missing = || Err(Violations::one("payload", "is required: send any JSON value"));
        let payload = payload.unwrap_or_else(missing).unwrap_or_else(|found| {
            note(&mut wrong, found);
            // It goes nowhere, but what else is wrong is still to be found.
            Payload::from_parsed("null")
        });
        let draft = Draft {
            queue,
            payload,
            key: key.or(header_key),
            delay: self.delay.map(|delay| delay.0),
            run_at: self.run_at.map(|time| time.0),
            priority: self.priority.unwrap_or(0),
            group,
            overrides: Overrides {
                max_attempts: self.max_attempts,
                retry: self.retry.map(RetryBody::into_policy),
                timeout: self.timeout.map(|span| span.0),
                window: self.window.map(|span| span.0),
            },
            metadata: self.metadata.unwrap_or_default().into_iter().collect(),
            publisher: caller.label(),
        };
        match draft.check() {
            Ok(publish) if wrong.iter().next().is_none() => Ok(publish),
            Ok(_) => Err(wrong.into()),
            Err(found) => {
                note(&mut wrong, found);
                Err(wrong.into())
            }
        }
    }
}

/// The key that a request names in its header, if it does.
#[derive(Debug)]
pub(super) struct HeaderKey(Result<Option<Key>, Problem>);

impl FromRequestParts<Arc<Service>> for HeaderKey {
    type Rejection = Infallible;

    /// One that is wrong is no reason to read no further: everything that is wrong is named at once.
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Service>) -> Result<Self, Infallible> {
        Ok(Self(header_key(&parts.headers)))
    }
}

/// The key in the header `Idempotency-Key`, quoted (as its draft standard says) or bare.
fn header_key(headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let mut found: Option<Key> = None;
    for value in headers.get_all("idempotency-key") {
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Problem::field("Idempotency-Key", "must be UTF-8"))?;
        let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        let key = Key::try_from(text)?;
        if found.as_ref().is_some_and(|first| *first != key) {
            return Err(Problem::field(
                "Idempotency-Key",
                "is there twice with different keys: send it once",
            ));
        }
        found = Some(key);
    }
    Ok(found)
}

/// Publishes a job, or returns the one that holds its key.
#[utoipa::path(post, path = "/v1/queues/{queue}/jobs", tag = "publish",
    params(("queue" = String, Path, description = "The queue"), ("wait" = Option<u64>, Query, maximum = 60, description = "Seconds to wait for the job to end; then the whole job is returned"),
        ("Idempotency-Key" = Option<String>, Header, description = "The key, quoted or bare")),
    request_body = PublishBody,
    responses((status = 201, description = "Created", body = PublishedView), (status = 200, description = "Deduplicated, or waited for", body = PublishOrJob),
        (status = "4XX", description = "Not published", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not published, or not known to be", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn publish(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    Wait(wait): Wait,
    HeaderKey(key): HeaderKey,
    InTrace(trace): InTrace,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Publish, &queue)?;
    let in_header = key.as_ref().ok().cloned().flatten();
    let mut tracing = None;
    let check = |mut asked: PublishBody| {
        tracing = Some(asked.traced(&service.telemetry, trace));
        asked.check(queue.clone(), in_header, &caller)
    };
    let (_, publish) = Problem::both(key, wire::read_checked(&body.bytes, check))?;
    let published = commit_or_create(&service, &queue, publish).await;
    let end =
        |tracing: Publishing| tracing.end(&queue, published.as_ref().map_err(|problem| problem.code.name()));
    tracing.into_iter().for_each(end);
    answer(&service, &queue, &published?, wait).await
}

/// Either answer to a publish.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum PublishOrJob<'a> {
    /// Without `wait`.
    Published(PublishedView<'a>),
    /// With `wait`.
    Job(Box<JobView<'a>>),
}

async fn answer(
    service: &Service,
    queue: &QueueName,
    published: &Published,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let status = if published.deduplicated { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = match wait {
        None => (status, Json(PublishOrJob::Published(PublishedView::of(queue, published)))).into_response(),
        Some(_) => {
            let job = jobs::wait_for(service, published.id, wait).await?;
            let configs = Configs::of(service.store.as_ref(), std::slice::from_ref(&job)).await?;
            Json(PublishOrJob::Job(Box::new(configs.view(&job)))).into_response()
        }
    };
    if published.deduplicated {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// In dev mode an unknown queue is made, as a pull queue with default settings.
async fn commit_or_create(
    service: &Service,
    queue: &QueueName,
    publish: Publish,
) -> Result<Published, Problem> {
    if !service.options.dev {
        return Ok(service.commit.publish(publish).await?);
    }
    match service.commit.publish(publish.clone()).await {
        Err(CommitError::Refused(Refusal::QueueNotFound(_))) => {
            create(service, queue).await?;
            Ok(service.commit.publish(publish).await?)
        }
        other => Ok(other?),
    }
}

async fn create(service: &Service, queue: &QueueName) -> Result<(), Problem> {
    let config = Box::new(QueueConfig::default());
    service.commit.submit(Command::PutQueue { name: queue.clone(), config }).await?;
    tracing::info!(%queue, "a publish made this queue, as a pull queue");
    Ok(())
}

/// Publishes many jobs. Each succeeds or fails for itself.
#[utoipa::path(post, path = "/v1/queues/{queue}/jobs/batch", tag = "publish", params(("queue" = String, Path, description = "The queue")),
    request_body = BatchOfPublishes,
    responses((status = 200, description = "One answer per item, in order", body = BatchAnswer), (status = "4XX", description = "Nothing was published", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Nothing was published, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn publish_batch(
    State(service): State<Arc<Service>>,
    caller: Caller,
    InQueue(queue): InQueue,
    InTrace(trace): InTrace,
    body: BatchBody,
) -> Result<Response, Problem> {
    caller.may_in(Scope::Publish, &queue)?;
    let tracing = service.telemetry.publishing(trace);
    let check = |mut asked: PublishBody| {
        asked.keep(tracing.kept());
        asked.check(queue.clone(), None, &caller)
    };
    let checked = aside(body.bytes.len(), || batch::read::<BatchOfPublishes, _>(&body.bytes, check))?;
    if service.options.dev && service.store.queue(&queue).await?.is_none() {
        create(&service, &queue).await?;
    }
    let results = commit_each(&service, &queue, checked).await;
    let found = results.iter().filter(|result| result.as_ref().is_ok_and(|view| view.deduplicated)).count();
    tracing.end_batch(&queue, results.len(), found);
    all_failed_alike(&results)?;
    Ok(Json(BatchAnswer { results: results.into_iter().map(BatchItem::of).collect() }).into_response())
}

/// Commits what passed its checks and puts the answers back where they belong.
async fn commit_each<'a>(
    service: &Service,
    queue: &'a QueueName,
    checked: Vec<Checked<Publish>>,
) -> Vec<Result<PublishedView<'a>, Problem>> {
    let mut commands = Vec::with_capacity(checked.len());
    let places: Vec<Result<(), Problem>> = checked
        .into_iter()
        .map(|item| item.map(|publish| commands.push(Command::Publish(publish))))
        .collect();
    let mut replies = service.commit.submit_all(commands).await.into_iter();
    let next = |()| match replies.next() {
        Some(Ok(Reply::Published(published))) => Ok(PublishedView::of(queue, &published)),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(_)) | None => Err(Problem::new(super::code::Code::Internal, "the store gave no answer")),
    };
    let mut next = next;
    places.into_iter().map(|place| place.and_then(&mut next)).collect()
}

/// A batch of which nothing could be done for the same passing reason fails as a whole, so that callers who only look at
/// the status try again.
fn all_failed_alike(results: &[Result<PublishedView<'_>, Problem>]) -> Result<(), Problem> {
    let Some(Err(first)) = results.first() else { return Ok(()) };
    let whole = first.code.status().is_server_error() || first.code == super::code::Code::QueueNotFound;
    let alike = results.iter().all(|result| matches!(result, Err(problem) if problem.code == first.code));
    if whole && alike { Err(first.clone()) } else { Ok(()) }
}

impl<'a> BatchItem<'a> {
    fn of(result: Result<PublishedView<'a>, Problem>) -> Self {
        match result {
            Ok(published) => Self::Published(published),
            Err(problem) => Self::Problem(problem.body()),
        }
    }
}
