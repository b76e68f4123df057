//! What can go wrong, with the stable codes of the HTTP API.

use std::fmt;

use serde::Deserialize;

/// Why a publish or a complete did not happen. The transaction it was called in has failed then: PostgreSQL takes nothing
/// but a rollback, of all of it or back to a savepoint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Semel said no. The same call gets the same answer until something is changed.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The database failed, or could not be reached.
    #[error("the database failed: {source}")]
    Database {
        /// The SQLSTATE, if it was the database that spoke.
        state: Option<String>,
        /// The driver's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A payload or a result cannot be written as JSON.
    #[error("this cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The database answered something that this version does not understand.
    #[error("the database answered something unexpected: {0}; is the schema semel that of another version?")]
    Answer(String),
}

/// A clear answer to one call, after which nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind.
    pub code: Code,
    /// What is wrong, in words.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// Every field that is wrong, for [`Code::Invalid`].
    pub violations: Vec<Violation>,
    /// The job that it is about, if it is about one.
    pub job: Option<String>,
    /// Where the payloads of a collision differ, as JSON pointers.
    pub pointers: Vec<String>,
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// The field, named as in the HTTP API.
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The kinds of refusals. Their names are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// A field does not validate.
    Invalid,
    /// No such queue.
    QueueNotFound,
    /// The queue wants a key.
    KeyRequired,
    /// The key does not look as the queue wants it.
    KeyPattern,
    /// The payload is larger than the queue takes.
    PayloadTooLarge,
    /// The key stands for another payload.
    KeyCollision,
    /// No such job.
    JobNotFound,
    /// The lease is not the current one.
    StaleLease,
    /// Something stored cannot be read.
    Damaged,
    /// PostgreSQL cannot judge the queue's key pattern as the server would.
    PatternUnsupported,
    /// A group's order cannot be kept by a transaction of this isolation level.
    Isolation,
    /// One that this version does not know.
    Other(String),
}

impl Code {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Invalid, "invalid"),
        (Self::QueueNotFound, "queue_not_found"),
        (Self::KeyRequired, "key_required"),
        (Self::KeyPattern, "key_pattern"),
        (Self::PayloadTooLarge, "payload_too_large"),
        (Self::KeyCollision, "key_collision"),
        (Self::JobNotFound, "job_not_found"),
        (Self::StaleLease, "stale_lease"),
        (Self::Damaged, "damaged"),
        (Self::PatternUnsupported, "pattern_unsupported"),
        (Self::Isolation, "isolation"),
    ];

    /// The name that machines go by.
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => Self::ALL.iter().find(|(code, _)| code == known).map_or("", |(_, name)| name),
        }
    }

    fn named(name: String) -> Self {
        let known = Self::ALL.into_iter().find(|(_, known)| *known == name);
        known.map_or(Self::Other(name), |(code, _)| code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.code, self.message, self.hint)
    }
}

/// What a driver tells of an error of the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) state: &'a str,
    pub(super) message: &'a str,
    pub(super) detail: Option<&'a str>,
    pub(super) hint: Option<&'a str>,
}

/// The detail of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    code: String,
    violations: Vec<Violation>,
    job: Option<String>,
    pointers: Vec<String>,
}

impl Error {
    /// An error of the database: a refusal if it has a state of Semel's.
    pub(super) fn of(told: Option<Told<'_>>, source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let details = |told: Told<'_>| serde_json::from_str::<Details>(told.detail.unwrap_or_default()).ok();
        match told.filter(|told| told.state.starts_with("SM")).and_then(|told| Some((told, details(told)?))) {
            Some((told, details)) => Self::Refused(Box::new(Refusal {
                code: Code::named(details.code),
                message: told.message.to_owned(),
                hint: told.hint.unwrap_or_default().to_owned(),
                violations: details.violations,
                job: details.job,
                pointers: details.pointers,
            })),
            None => Self::Database { state: told.map(|told| told.state.to_owned()), source },
        }
    }

    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same transaction may well work when it is run again: it lost a race, or the connection.
    pub fn retryable(&self) -> bool {
        let Self::Database { state, .. } = self else { return false };
        state.as_deref().is_none_or(|state| {
            // Serialisation failures and deadlocks; a lock that was not to be had in time; a lost or refused connection; a
            // server that goes down.
            ["40", "55P03", "08", "53300", "57P"].iter().any(|known| state.starts_with(known))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(state: &str, detail: Option<&str>) -> Error {
        Error::of(Some(Told { state, message: "no", detail, hint: Some("do") }), "driver".into())
    }

    #[test]
    fn a_refusal_tells_what_the_function_told() {
        let collision =
            error("SM006", Some(r#"{"code": "key_collision", "job": "job_1", "pointers": ["/a"]}"#));
        let refusal = collision.refusal().unwrap();
        assert_eq!((&refusal.code, refusal.job.as_deref()), (&Code::KeyCollision, Some("job_1")));
        assert_eq!(refusal.pointers, ["/a"]);
        assert_eq!(collision.to_string(), "key_collision: no (do)");
        assert!(!collision.retryable());
        let later = error("SM099", Some(r#"{"code": "of_a_later_version", "more": 1}"#));
        assert_eq!(later.refusal().unwrap().code.name(), "of_a_later_version");
    }

    #[test]
    fn what_the_database_says_itself_is_no_refusal() {
        for (state, retryable) in
            [("40001", true), ("40P01", true), ("57P01", true), ("42883", false), ("SM001", false)]
        {
            let error = error(state, None);
            assert!(error.refusal().is_none());
            assert_eq!(error.retryable(), retryable, "{state}");
        }
        assert!(Error::of(None, "connection lost".into()).retryable());
    }
}
