//! Names in paths, and the one query parameter that many share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;

use super::code::Code;
use super::problem::Problem;
use crate::service::Service;

/// Longest a request may wait for a result.
pub(super) const WAIT_MAX: u64 = 60;

async fn param(parts: &mut Parts, state: &Arc<Service>, name: &str) -> Result<String, Problem> {
    let found = RawPathParams::from_request_parts(parts, state).await;
    let found = found.map_err(|_| Problem::field(name, "must be UTF-8, percent-encoded"))?;
    let value = found.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
    value.ok_or_else(|| Problem::new(Code::Internal, format!("the path has no {name}")))
}

/// The queue in a path.
#[derive(Debug)]
pub(super) struct InQueue(pub(super) QueueName);

impl FromRequestParts<Arc<Service>> for InQueue {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Service>) -> Result<Self, Problem> {
        Ok(Self(QueueName::try_from(param(parts, state, "queue").await?.as_str())?))
    }
}

/// The job in a path. What is no id is the id of no job.
#[derive(Debug)]
pub(super) struct OfJob(pub(super) JobId);

impl FromRequestParts<Arc<Service>> for OfJob {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Service>) -> Result<Self, Problem> {
        let text = param(parts, state, "id").await?;
        text.parse().map(Self).map_err(|_| no_such_job(&text))
    }
}

fn no_such_job(text: &str) -> Problem {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    Problem::new(Code::JobNotFound, format!("there is no job {shown:?}: ids look like job_0123456789abc"))
}

/// The key in a path.
#[derive(Debug)]
pub(super) struct WithKey(pub(super) Key);

impl FromRequestParts<Arc<Service>> for WithKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Service>) -> Result<Self, Problem> {
        Ok(Self(Key::try_from(param(parts, state, "key").await?.as_str())?))
    }
}

/// The name of a schedule, an API key or a replay in a path.
#[derive(Debug)]
pub(super) struct Named(pub(super) String);

impl FromRequestParts<Arc<Service>> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Service>) -> Result<Self, Problem> {
        let name = param(parts, state, "name").await?;
        if name.is_empty() || name.chars().count() > 255 || name.chars().any(char::is_control) {
            return Err(Problem::field("name", "must be 1 to 255 printable characters"));
        }
        Ok(Self(name))
    }
}

/// The query of a request, as pairs.
#[derive(Debug, Default)]
pub(super) struct Params(pub(super) Vec<(String, String)>);

impl FromRequestParts<Arc<Service>> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Service>) -> Result<Self, Problem> {
        let Some(query) = parts.uri.query() else { return Ok(Self::default()) };
        let pairs = serde_urlencoded::from_str(query);
        pairs.map(Self).map_err(|_| Problem::field("query", "must be percent-encoded UTF-8"))
    }
}

impl Params {
    /// The parameters by name, if there are none but those allowed, each once.
    pub(super) fn only(self, allowed: &[&str]) -> Result<HashMap<String, String>, Problem> {
        let mut by_name = HashMap::new();
        for (name, value) in self.0 {
            if !allowed.contains(&name.as_str()) {
                let words = format!("is not a parameter here: there are {}", allowed.join(", "));
                return Err(Problem::field(&name, words));
            }
            if by_name.insert(name.clone(), value).is_some() {
                return Err(Problem::field(&name, "must be there once"));
            }
        }
        Ok(by_name)
    }
}

/// How long to wait for the end of a job: the parameter `wait`.
#[derive(Debug)]
pub(super) struct Wait(pub(super) Option<Duration>);

impl FromRequestParts<Arc<Service>> for Wait {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Service>) -> Result<Self, Problem> {
        if parts.uri.query().is_none() {
            return Ok(Self(None));
        }
        let params = Params::from_request_parts(parts, state).await?.only(&["wait"])?;
        let Some(text) = params.get("wait") else { return Ok(Self(None)) };
        let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds <= WAIT_MAX);
        let seconds = seconds
            .ok_or_else(|| Problem::field("wait", format!("must be 0 to {WAIT_MAX} whole seconds")))?;
        Ok(Self((seconds > 0).then(|| Duration::from_secs(seconds))))
    }
}
