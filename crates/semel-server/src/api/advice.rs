//! Advice: what should be looked at, asked for by people and by `semel doctor`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::name::QueueName;
use semel_core::records::Scope;
use semel_core::refusal::Refusal;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use utoipa::ToSchema;

use super::auth::Caller;
use super::json::Json;
use super::path::Params;
use super::problem::{Problem, ProblemBody};
use super::wire::{Seconds, Time};
use crate::advice::{self, Fact, Finding};
use crate::service::Service;

/// One thing that should be looked at.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Finding)]
pub(super) struct FindingView {
    /// A stable code: each has a section in the documentation.
    code: &'static str,
    /// `info` (good to know), `warning` (something goes wrong now and then, or will) or `critical` (work is lost, done twice
    /// or not done at all).
    severity: &'static str,
    /// The queue it is about; null if it is about the store.
    #[schema(required = true)]
    queue: Option<String>,
    /// What was found.
    summary: String,
    /// What it means.
    meaning: String,
    /// What to do: which setting to change, to what.
    remedy: String,
    /// What it is based on, by name: numbers, times, spans in seconds, and samples.
    #[schema(value_type = Object)]
    evidence: Evidence,
    /// When this node first noticed it.
    #[schema(value_type = String, format = DateTime)]
    since: Time,
}

/// What a finding is based on.
#[derive(Debug)]
struct Evidence(Vec<(&'static str, Fact)>);

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        facts(&self.0, serializer)
    }
}

struct FactView<'a>(&'a Fact);
struct SampleView<'a>(&'a [(&'static str, Fact)]);

impl Serialize for SampleView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        facts(self.0, serializer)
    }
}

impl Serialize for FactView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Fact::Count(count) => serializer.serialize_u64(*count),
            Fact::Span(span) => Seconds(*span).serialize(serializer),
            Fact::At(at) => Time(*at).serialize(serializer),
            Fact::Text(text) => serializer.serialize_str(text),
            Fact::Samples(samples) => serializer.collect_seq(samples.iter().map(|sample| SampleView(sample))),
        }
    }
}

fn facts<S: Serializer>(facts: &[(&'static str, Fact)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(facts.len()))?;
    for (name, fact) in facts {
        map.serialize_entry(name, &FactView(fact))?;
    }
    map.end()
}

impl FindingView {
    fn of(finding: Finding) -> Self {
        Self {
            code: finding.code.name(),
            severity: finding.severity.name(),
            queue: finding.queue.map(|queue| queue.to_string()),
            summary: finding.summary,
            meaning: finding.meaning,
            remedy: finding.remedy,
            evidence: Evidence(finding.evidence),
            since: Time(finding.since),
        }
    }
}

/// What should be looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Advice)]
pub(super) struct AdviceView {
    /// The store's time.
    #[schema(value_type = String, format = DateTime)]
    now: Time,
    /// The node that answers. What it saw go through itself is all it knows of publishes and deliveries.
    node: String,
    /// The worst first. Nothing, if nothing has to be done.
    findings: Vec<FindingView>,
}

/// What should be looked at in the queues the key is for, and in the store if it is for all of them.
#[utoipa::path(get, path = "/v1/advice", tag = "operate",
    params(("queue" = Option<String>, Query, description = "Only what is about this queue")),
    responses((status = 200, description = "What was found", body = AdviceView), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not known now", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn advice(
    State(service): State<Arc<Service>>,
    caller: Caller,
    params: Params,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let queue = asked(params)?;
    if let Some(queue) = &queue {
        caller.may_in(Scope::Read, queue)?;
        service.store.queue(queue).await?.ok_or_else(|| Refusal::QueueNotFound(queue.clone()))?;
    }
    let mut findings = advice::findings(&service).await?;
    findings.retain(|finding| is_for(finding, &caller, queue.as_ref()));
    let view = AdviceView {
        now: Time(service.store.now()),
        node: service.options.identity.name.clone(),
        findings: findings.into_iter().map(FindingView::of).collect(),
    };
    Ok(Json(view).into_response())
}

fn asked(params: Params) -> Result<Option<QueueName>, Problem> {
    let params = params.only(&["queue"])?;
    Ok(params.get("queue").map(|name| QueueName::try_from(name.as_str())).transpose()?)
}

/// Findings show keys, so they are for those who may read the queues they are about. What is about the store concerns those
/// who are there for all of it.
fn is_for(finding: &Finding, caller: &Caller, wanted: Option<&QueueName>) -> bool {
    let about = [&finding.queue, &finding.other];
    let may_see = match &finding.queue {
        Some(_) => about.into_iter().flatten().all(|queue| caller.covers(queue)),
        None => caller.is_for_all(),
    };
    may_see && wanted.is_none_or(|wanted| about.into_iter().flatten().any(|queue| queue == wanted))
}
