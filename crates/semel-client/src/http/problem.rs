//! What the server says when it says no.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// A problem as the server told it (RFC 9457). Nothing has changed, unless the code says that this is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the answer.
    pub status: u16,
    /// Which kind; stable.
    pub code: Code,
    /// What is wrong with this request, and what to do next.
    pub detail: String,
    /// Whether the same request may work later, without anybody mending anything.
    pub retryable: bool,
    /// Every field that is wrong, for [`Code::Invalid`].
    pub violations: Vec<Violation>,
    /// Where the payloads of a collision differ, as JSON pointers.
    pub pointers: Vec<String>,
    /// The job that holds the key of a collision.
    pub job: Option<String>,
    /// When to come back, if the server said so.
    pub retry_after: Option<Duration>,
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// The field, named as in the HTTP API.
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident, $name:literal;)*) => {
        /// The kinds of problems. Their names are stable; each has a page in `docs/errors`, which the server shows too.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
            /// One that this version does not know.
            Other(String),
        }

        impl Code {
            /// The code of that name.
            pub fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            /// The name that machines go by.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }
        }
    };
}

codes! {
    /// A field does not validate.
    Invalid, "invalid";
    /// The body is not JSON.
    InvalidJson, "invalid_json";
    /// The queue wants a key.
    KeyRequired, "key_required";
    /// No API key, or not one that the server knows.
    Unauthorized, "unauthorized";
    /// The API key may not do that.
    Forbidden, "forbidden";
    /// A browser was tricked into asking.
    CrossSite, "cross_site";
    /// No such path.
    NotFound, "not_found";
    /// No such queue.
    QueueNotFound, "queue_not_found";
    /// No such job.
    JobNotFound, "job_not_found";
    /// No job holds the key.
    KeyNotFound, "key_not_found";
    /// No such schedule, API key or replay.
    RecordNotFound, "record_not_found";
    /// Not that method.
    MethodNotAllowed, "method_not_allowed";
    /// The body came too slowly.
    BodyTimeout, "body_timeout";
    /// The lease is not the current one.
    StaleLease, "stale_lease";
    /// The job is not with a worker.
    NotLeased, "not_leased";
    /// The job is in the wrong state.
    WrongState, "wrong_state";
    /// The queue has unfinished jobs.
    QueueNotEmpty, "queue_not_empty";
    /// Another node has done it.
    Outrun, "outrun";
    /// The payload is no longer kept.
    PayloadGone, "payload_gone";
    /// The payload is larger than the queue takes.
    PayloadTooLarge, "payload_too_large";
    /// The body is larger than the server takes.
    BodyTooLarge, "body_too_large";
    /// Not JSON, or compressed.
    UnsupportedMediaType, "unsupported_media_type";
    /// The key stands for another payload.
    KeyCollision, "key_collision";
    /// The key does not look as the queue wants it.
    KeyPattern, "key_pattern";
    /// Something stored cannot be read.
    Damaged, "damaged";
    /// The server made a mistake.
    Internal, "internal";
    /// Too much is waiting to be stored.
    Overloaded, "overloaded";
    /// The store is busy.
    StoreBusy, "store_busy";
    /// It is not known whether it happened.
    UnknownOutcome, "unknown_outcome";
    /// The store takes no more writes.
    StoreFailed, "store_failed";
    /// The server ends.
    ShuttingDown, "shutting_down";
    /// There is no room for new jobs.
    StorageFull, "storage_full";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.detail, self.code, self.status)
    }
}

impl std::error::Error for Problem {}

/// The members of a problem's body, all of which a proxy in between may leave out.
#[derive(Debug, Deserialize)]
struct Body {
    code: Option<String>,
    detail: Option<String>,
    retryable: Option<bool>,
    status: Option<u16>,
    #[serde(default)]
    violations: Vec<Violation>,
    #[serde(default)]
    pointers: Vec<String>,
    job: Option<String>,
}

/// Statuses that say "not now" by themselves. They come from proxies, or from servers in front.
const NOT_NOW: [u16; 7] = [408, 425, 429, 502, 503, 504, 529];

/// How much of an answer that is no problem is shown.
const SHOWN: usize = 200;

impl Problem {
    /// The problem in the body of an answer, or the best that can be made of it.
    pub(super) fn read(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let found = serde_json::from_slice::<Body>(body).ok().and_then(|body| Self::of(status, body));
        Self { retry_after, ..found.unwrap_or_else(|| Self::from_stranger(status, body)) }
    }

    /// The problem that is one item of a batch's answer.
    pub(super) fn item(body: &str) -> Option<Self> {
        let body: Body = serde_json::from_str(body).ok()?;
        let status = body.status?;
        Self::of(status, body)
    }

    fn of(status: u16, body: Body) -> Option<Self> {
        let Body { code, detail, retryable, violations, pointers, job, .. } = body;
        let code = Code::named(&code?);
        let detail = detail.unwrap_or_else(|| format!("the server said {code}"));
        let retryable = retryable.unwrap_or_else(|| NOT_NOW.contains(&status));
        Some(Self { status, code, detail, retryable, violations, pointers, job, retry_after: None })
    }

    fn from_stranger(status: u16, body: &[u8]) -> Self {
        let text: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
        let says = if text.is_empty() { String::new() } else { format!(": {text:?}") };
        let detail = format!("an answer that is not of a Semel server (is there a proxy in between?){says}");
        let code = Code::Other(format!("http_{status}"));
        let retryable = NOT_NOW.contains(&status);
        let (violations, pointers) = (Vec::new(), Vec::new());
        Self { status, code, detail, retryable, violations, pointers, job: None, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_server_is_known_and_no_other() {
        for code in semel_server::api::code::Code::ALL {
            let known = Code::named(code.name());
            assert!(!matches!(known, Code::Other(_)), "{} is not known", code.name());
            assert_eq!(known.name(), code.name());
        }
        assert_eq!(Code::named("later"), Code::Other("later".into()));
    }

    #[test]
    fn a_proxy_is_read_by_its_status() {
        let busy = Problem::read(503, b"<html>", Some(Duration::from_secs(2)));
        assert!(busy.retryable && busy.detail.contains("<html>"), "{busy}");
        assert_eq!(busy.retry_after, Some(Duration::from_secs(2)));
        assert!(!Problem::read(404, b"", None).retryable);
    }

    #[test]
    fn the_server_decides_whether_another_try_makes_sense() {
        let failed = br#"{"code":"store_failed","detail":"x","retryable":false,"status":503}"#;
        let failed = Problem::read(503, failed, None);
        assert_eq!((failed.retryable, failed.code), (false, Code::StoreFailed));
    }
}
