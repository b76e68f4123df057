//! How a job is tried again.

use std::time::Duration;

use serde::Serialize;

/// The waits between the attempts of a job; what is not said is as by default.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Retry {
    /// How the wait grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The wait after the first failure.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub base: Option<Duration>,
    /// What each further failure multiplies the wait by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest wait.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub cap: Option<Duration>,
    /// How waits are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
}

/// How the wait grows from failure to failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// Each wait is the factor times the one before.
    Exponential,
    /// Every wait is the first.
    Fixed,
}

/// How waits are spread, so that jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Jitter {
    /// Anywhere between nothing and the whole wait.
    Full,
    /// Exactly the wait.
    None,
}

fn seconds<S: serde::Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.as_secs_f64()).serialize(serializer)
}
