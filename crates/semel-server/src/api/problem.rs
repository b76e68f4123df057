//! Errors as the API answers them: problem details (RFC 9457), with a code for machines and words for people.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use semel_core::refusal::Refusal;
use semel_core::violation::{Violation, Violations};
use semel_store::StoreError;
use semel_store::group_commit::CommitError;
use serde::Serialize;
use utoipa::ToSchema;

use super::code::Code;

/// Why a request failed. Nothing has changed, unless the code says that this is not known.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    detail: String,
    violations: Vec<FieldProblem>,
    pointers: Option<Vec<String>>,
    job: Option<String>,
    retry_after: Option<Duration>,
}

/// What is wrong with one field.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FieldProblem {
    /// The field.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// The body of an error.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// Where the code is explained, on this server.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means.
    title: &'static str,
    /// The status.
    status: u16,
    /// The stable code.
    code: &'static str,
    /// What is wrong with this request, and what to do next.
    detail: String,
    /// The same, for callers written for SimpleQ.
    error: String,
    /// Whether the same request may work later.
    retryable: bool,
    /// Every field that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<FieldProblem>,
    /// Where the payloads of a collision differ, as JSON pointers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointers: Option<Vec<String>>,
    /// The job that holds the key of a collision.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail, violations: Vec::new(), pointers: None, job: None, retry_after: None }
    }

    /// One field is wrong.
    pub fn field(field: &str, problem: impl Into<String>) -> Self {
        Violations::one(field, problem).into()
    }

    /// What is wrong, in words.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// This problem and another one. If both are about fields, all of them are named.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        if self.code == Code::Invalid && other.code == Code::Invalid {
            self.violations.extend(other.violations);
            self.detail = in_words(&self.violations);
        }
        self
    }

    /// What it says about other members than those in `known`.
    #[must_use]
    pub fn about_others(mut self, known: &Violations) -> Self {
        let member = |field: &str| field.split(['.', '[']).next().unwrap_or_default().to_owned();
        self.violations.retain(|v| known.iter().all(|other| other.field != member(&v.field)));
        self
    }

    /// Two checks of one request: both, or all that is wrong with either.
    pub fn both<A, B>(one: Result<A, Self>, other: Result<B, Self>) -> Result<(A, B), Self> {
        match (one, other) {
            (Ok(one), Ok(other)) => Ok((one, other)),
            (Err(one), Err(other)) => Err(one.and(other)),
            (Err(problem), Ok(_)) | (Ok(_), Err(problem)) => Err(problem),
        }
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The body.
    pub fn body(&self) -> ProblemBody {
        let code = self.code;
        ProblemBody {
            kind: format!("/errors/{}", code.name()),
            title: code.title(),
            status: code.status().as_u16(),
            code: code.name(),
            detail: self.detail.clone(),
            error: self.detail.clone(),
            retryable: code.retryable(),
            violations: self.violations.clone(),
            pointers: self.pointers.clone(),
            job: self.job.clone(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body()).expect("a problem is plain data");
        let mut response = (self.code.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up: coming back early only to be turned away again helps nobody.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"semel\""));
        }
        response
    }
}

/// Longest text about one field, in characters. What the caller sent may be repeated in it, and that may be long.
const TEXT_MAX: usize = 500;

fn in_words(violations: &[FieldProblem]) -> String {
    let each: Vec<_> = violations.iter().map(|v| format!("{}: {}", v.field, v.problem)).collect();
    each.join("; ")
}

impl From<Violations> for Problem {
    fn from(found: Violations) -> Self {
        let short = |text: &str| text.chars().take(TEXT_MAX).collect();
        let short = |v: &Violation| FieldProblem { field: short(&v.field), problem: short(&v.problem) };
        let violations: Vec<_> = found.iter().map(short).collect();
        let words = in_words(&violations);
        Self { violations, ..Self::new(Code::Invalid, words) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Invalid(found) = refusal {
            return found.into();
        }
        // Both sides have the same names on purpose; a test holds them together.
        let code = Code::named(refusal.code()).unwrap_or(Code::Internal);
        let mut problem = Self::new(code, refusal.to_string());
        match refusal {
            Refusal::KeyCollision { id, pointers } => {
                problem.job = Some(id.to_string());
                problem.pointers = Some(pointers);
            }
            Refusal::StorageFull => problem.retry_after = Some(FULL_RETRY),
            _ => {}
        }
        problem
    }
}

/// When to try again on a full disk: room comes from people or from expiring jobs, neither of which is quick.
const FULL_RETRY: Duration = Duration::from_secs(30);

/// When to ask again about what is not known.
const UNKNOWN_RETRY: Duration = Duration::from_secs(1);

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let words = error.to_string();
        match error {
            StoreError::Busy { retry_after, .. } => {
                Self::new(Code::StoreBusy, words).retry_after(retry_after)
            }
            StoreError::Unknown(_) => Self::new(Code::UnknownOutcome, words).retry_after(UNKNOWN_RETRY),
            StoreError::Full(_) => Self::new(Code::StorageFull, words).retry_after(FULL_RETRY),
            StoreError::Failed(_) | StoreError::Open(_) => Self::new(Code::StoreFailed, words),
            StoreError::Corrupt(_) => Self::new(Code::Damaged, words),
            StoreError::Closed => Self::new(Code::ShuttingDown, "the server is shutting down: try again")
                .retry_after(UNKNOWN_RETRY),
            StoreError::Invalid(found) => found.into(),
            StoreError::TooMany { .. } => Self::new(Code::Internal, words),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(refusal) => refusal.into(),
            CommitError::Overloaded(full) => {
                Self::new(Code::Overloaded, full.to_string()).retry_after(full.retry_after)
            }
            CommitError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ids::JobId;
    use semel_core::lifecycle::State;
    use semel_core::name::QueueName;

    use super::*;

    #[test]
    fn every_refusal_has_its_code() {
        let id = JobId::from_raw(1).unwrap();
        let queue = QueueName::try_from("q").unwrap();
        let text = String::new;
        for refusal in [
            Refusal::QueueNotFound(queue.clone()),
            Refusal::JobNotFound(id),
            Refusal::KeyNotFound(text()),
            Refusal::RecordNotFound { kind: "schedule", name: text() },
            Refusal::KeyRequired(queue.clone()),
            Refusal::KeyPattern { pattern: text() },
            Refusal::PayloadTooLarge { size: 2, limit: 1 },
            Refusal::KeyCollision { id, pointers: vec![] },
            Refusal::StaleLease(id),
            Refusal::NotLeased { id, state: State::Pending },
            Refusal::WrongState { id, state: State::Pending, action: "x" },
            Refusal::PayloadGone(id),
            Refusal::QueueNotEmpty { queue, unfinished: 1 },
            Refusal::StorageFull,
            Refusal::Damaged(text()),
            Refusal::Outrun { kind: "schedule", name: text() },
        ] {
            let name = refusal.code();
            assert_eq!(Problem::from(refusal).code.name(), name);
        }
    }
}
