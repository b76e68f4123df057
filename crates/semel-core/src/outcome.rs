//! What came of a delivery, and how the answer of a webhook is read.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::payload::Payload;
use crate::queue::PushMode;
use crate::settle::{REASON_MAX, RESULT_MAX, RETRY_AFTER_DEFAULT};
use crate::time::{Millis, Timestamp};

/// Shortest wait taken from a response. Backpressure burns no attempt, so an endpoint that says "not now, try in 0
/// seconds" would otherwise be asked forever without a pause.
pub const RESPONSE_WAIT_MIN: Millis = Millis::from_secs(1);

/// Longest wait taken from a response. A header of ten years, or the date of a clock that is wrong, must not park a queue;
/// asking again after an hour costs one request and no attempt. A worker that defers on purpose may ask for more.
pub const RESPONSE_WAIT_MAX: Millis = Millis::from_hours(1);

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The job is done.
    Done {
        /// What the worker answered.
        result: Option<Payload>,
        /// What the worker said about the effect.
        effect: Option<Receipt>,
    },
    /// The worker has the job and will settle it later (ack mode).
    Received,
    /// The attempt failed; another may succeed.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// The worker asked for time. No attempt is burned.
    Backpressure {
        /// How long to wait; [`RETRY_AFTER_DEFAULT`] if it was not said.
        retry_after: Option<Millis>,
        /// What waits: the whole queue or only this job; the queue's setting if it was not said.
        scope: Option<DeferScope>,
        /// Why, in the worker's words.
        reason: Option<String>,
    },
    /// The job failed, and another attempt cannot succeed.
    Rejected {
        /// What went wrong.
        error: String,
    },
    /// The lease ran out without a word.
    Expired,
}

/// What waits when a worker asks for time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeferScope {
    /// The whole queue holds. It is the default because pressure is nearly always on the worker, not on one job.
    #[default]
    Queue,
    /// Only the job waits.
    Job,
}

/// What a worker reports about the effect of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Receipt {
    /// Whether the effect happened now, had happened before, or was not one.
    pub outcome: Effect,
    /// The key it is recorded under in the ledger.
    #[serde(default)]
    pub key: Option<String>,
}

/// Whether an effect happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// In this delivery.
    Applied,
    /// In an earlier one; this delivery returned the first result.
    Replayed,
    /// The job has no effect to record.
    None,
}

/// The parts of a webhook's answer that decide. Header values are given as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<&'a str>,
    /// The header `Semel-Retry`.
    pub semel_retry: Option<&'a str>,
    /// The header `Semel-Effect`.
    pub semel_effect: Option<&'a str>,
    /// The body, if it is JSON.
    pub json_body: Option<&'a Payload>,
}

/// How the errors begin after which no request can have reached the worker. They are constants because a job's history
/// keeps only the text, and [`never_reached_worker`] reads it back.
const REFUSED: &str = "the connection was refused";
const DNS: &str = "the host name could not be resolved";
const BLOCKED: &str = "the address is not allowed";
const UNABLE: &str = "the server could not make a connection";

/// How long a delivery waits that the server had no means for, such as a free descriptor. Those under way give theirs
/// back within seconds.
const UNABLE_WAIT: Millis = Millis::from_secs(1);

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeliveryError {
    /// The endpoint did not answer in time.
    #[error("the endpoint did not answer in time")]
    Timeout,
    /// The connection was refused.
    #[error("{REFUSED}: {0}")]
    Refused(String),
    /// The connection broke before the answer was complete.
    #[error("the connection broke: {0}")]
    Reset(String),
    /// No secure connection could be made.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The host name could not be resolved.
    #[error("{DNS}: {0}")]
    Dns(String),
    /// The guard against requests to private addresses refused.
    #[error("{BLOCKED}: {0}")]
    Blocked(String),
    /// The server had not the means to make a connection, such as a free descriptor.
    #[error("{UNABLE}: {0}")]
    Unable(String),
    /// The head of the answer was too large to read. A large body is no error: it is just not kept.
    #[error("the head of the answer was too large")]
    TooLarge,
}

impl DeliveryError {
    /// Whether it proves that the worker never saw the job. A broken connection or a time-out does not: the request may
    /// have arrived, and only the answer been lost.
    pub const fn never_reached_worker(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Dns(_) | Self::Blocked(_) | Self::Unable(_))
    }
}

/// The same of an error as a history keeps it.
pub fn never_reached_worker(error: &str) -> bool {
    let begins = |beginning| error.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(": "));
    [REFUSED, DNS, BLOCKED, UNABLE].into_iter().any(begins)
}

/// Reads the answer of a webhook.
///
/// | answer | outcome |
/// |---|---|
/// | 2xx | done; in ack mode, received |
/// | `Semel-Retry: no` with any other status, or 410 | rejected |
/// | 429, 503, 529 | backpressure |
/// | anything else, redirects too | failed |
///
/// `Semel-Retry` outranks the backpressure statuses, because only the worker itself can have said it, while a 503 may
/// come from any proxy on the way.
pub fn of_response(response: &Response<'_>, mode: PushMode, now: Timestamp) -> Outcome {
    let refuses = response.semel_retry.is_some_and(|value| value.trim().eq_ignore_ascii_case("no"));
    let status = response.status;
    match (status, mode) {
        (200..=299, PushMode::Ack) => Outcome::Received,
        (200..=299, PushMode::Standard) => done(response),
        _ if refuses => {
            Outcome::Rejected { error: format!("the endpoint answered {status} and Semel-Retry: no") }
        }
        (410, _) => Outcome::Rejected { error: "the endpoint answered 410 (gone)".to_owned() },
        (429 | 503 | 529, _) => Outcome::Backpressure {
            retry_after: Some(retry_after(response.retry_after, now)),
            scope: None,
            reason: Some(format!("the endpoint answered {status}")),
        },
        (300..=399, _) => Outcome::Failed {
            error: format!(
                "the endpoint answered {status}; redirects are not followed, set the queue's URL to the target"
            ),
        },
        _ => Outcome::Failed { error: format!("the endpoint answered {status}") },
    }
}

/// Reads a broken delivery: always a failed attempt.
///
/// That includes a blocked address. It could go straight to the dead letters, but it is a mistake in the queue's
/// settings, not in the job, and retries leave the time to mend it.
pub fn of_error(error: &DeliveryError) -> Outcome {
    let words = error.to_string().chars().take(REASON_MAX).collect();
    match error {
        // The worker did nothing wrong and may be well: no attempt is burned, and its queue need not hold.
        DeliveryError::Unable(_) => Outcome::Backpressure {
            retry_after: Some(UNABLE_WAIT),
            scope: Some(DeferScope::Job),
            reason: Some(words),
        },
        _ => Outcome::Failed { error: words },
    }
}

/// A body that is too large is left out, not held against the job: the effect has happened.
fn done(response: &Response<'_>) -> Outcome {
    let result = response.json_body.filter(|body| body.len() <= RESULT_MAX).cloned();
    Outcome::Done { result, effect: response.semel_effect.and_then(receipt_of) }
}

/// The receipt in a header `Semel-Effect`. An answer that is no success may carry one too: the handler failed after the
/// effect.
pub fn receipt_of(header: &str) -> Option<Receipt> {
    effect_of(header).map(|outcome| Receipt { outcome, key: None })
}

/// A value that is none of the three counts as unreported: guessing would falsify the count of effects.
fn effect_of(header: &str) -> Option<Effect> {
    match header.trim().to_ascii_lowercase().as_str() {
        "applied" => Some(Effect::Applied),
        "replayed" => Some(Effect::Replayed),
        "none" => Some(Effect::None),
        _ => None,
    }
}

fn retry_after(header: Option<&str>, now: Timestamp) -> Millis {
    let wait = header.map(str::trim).and_then(|value| seconds(value).or_else(|| until_date(value, now)));
    wait.unwrap_or(RETRY_AFTER_DEFAULT).clamp(RESPONSE_WAIT_MIN, RESPONSE_WAIT_MAX)
}

/// Digits only: a sign, a fraction or a unit is not what the standard allows. A number too large to hold is a long wait.
fn seconds(value: &str) -> Option<Millis> {
    let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| Millis::from_secs(value.parse().unwrap_or(u64::MAX)))
}

fn until_date(value: &str, now: Timestamp) -> Option<Millis> {
    let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let millis = u64::try_from(date.as_millis()).ok()?;
    Some(Timestamp::from_millis(millis).since(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000);

    fn answer(status: u16) -> Response<'static> {
        Response { status, ..Response::default() }
    }

    fn read(response: &Response<'_>) -> Outcome {
        of_response(response, PushMode::Standard, NOW)
    }

    fn wait(header: Option<&str>) -> u64 {
        match read(&Response { retry_after: header, ..answer(429) }) {
            Outcome::Backpressure { retry_after: Some(wait), scope: None, .. } => wait.millis(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn any_2xx_is_done_or_in_ack_mode_received() {
        for status in [200, 201, 204, 299] {
            assert_eq!(read(&answer(status)), Outcome::Done { result: None, effect: None });
            assert_eq!(of_response(&answer(status), PushMode::Ack, NOW), Outcome::Received);
        }
    }

    #[test]
    fn only_429_503_and_529_are_backpressure() {
        for status in 100..=599 {
            let pushed_back = matches!(read(&answer(status)), Outcome::Backpressure { .. });
            assert_eq!(pushed_back, [429, 503, 529].contains(&status), "{status}");
        }
    }

    #[test]
    fn gone_or_a_word_from_the_worker_rejects() {
        let no = Response { semel_retry: Some(" No "), ..answer(500) };
        assert!(matches!(read(&answer(410)), Outcome::Rejected { .. }));
        assert!(matches!(read(&no), Outcome::Rejected { .. }));
        assert!(matches!(read(&Response { status: 503, ..no }), Outcome::Rejected { .. }));
        assert!(matches!(read(&Response { status: 200, ..no }), Outcome::Done { .. }));
        assert!(matches!(read(&Response { semel_retry: Some("yes"), ..no }), Outcome::Failed { .. }));
    }

    #[test]
    fn everything_else_is_a_failed_attempt() {
        for status in [0, 100, 199, 301, 308, 400, 404, 409, 500, 502, 504, 999] {
            assert!(matches!(read(&answer(status)), Outcome::Failed { .. }), "{status}");
        }
    }

    #[test]
    fn a_small_body_is_the_result_and_a_large_one_is_not_kept() {
        let limit = Payload::from_json(format!("\"{}\"", "x".repeat(RESULT_MAX - 2))).unwrap();
        let past = Payload::from_json(format!("\"{}\"", "x".repeat(RESULT_MAX - 1))).unwrap();
        let done = |body| read(&Response { json_body: Some(body), ..answer(200) });
        assert_eq!(done(&limit), Outcome::Done { result: Some(limit.clone()), effect: None });
        assert_eq!(done(&past), Outcome::Done { result: None, effect: None });
    }

    #[test]
    fn the_receipt_is_read_and_never_guessed() {
        let effect = |header| match read(&Response { semel_effect: Some(header), ..answer(200) }) {
            Outcome::Done { effect, .. } => effect.map(|receipt| receipt.outcome),
            other => panic!("{other:?}"),
        };
        assert_eq!(effect("applied"), Some(Effect::Applied));
        assert_eq!(effect(" Replayed"), Some(Effect::Replayed));
        assert_eq!(effect("none"), Some(Effect::None));
        assert_eq!(effect("maybe"), None);
    }

    #[test]
    fn the_wait_is_read_in_seconds_or_as_a_date_and_clamped() {
        let cases = [
            (None, 60_000),
            (Some("7"), 7000),
            (Some(" 7 "), 7000),
            (Some("0"), 1000),
            (Some("315360000"), 3_600_000),
            (Some("99999999999999999999999"), 3_600_000),
            (Some("-5"), 60_000),
            (Some("+5"), 60_000),
            (Some("1.5"), 60_000),
            (Some(""), 60_000),
            (Some("soon"), 60_000),
            (Some("Sun, 06 Nov 1994 08:50:07 GMT"), 30_000),
            (Some("Sunday, 06-Nov-94 08:50:07 GMT"), 30_000),
            (Some("Sun Nov  6 08:50:07 1994"), 30_000),
            (Some("Sun, 06 Nov 1994 08:00:00 GMT"), 1000),
            (Some("Thu, 06 Nov 2064 08:49:37 GMT"), 3_600_000),
            (Some("Sun, 06 Nov 1994 25:00:00 GMT"), 60_000),
        ];
        for (header, expected) in cases {
            assert_eq!(wait(header), expected, "{header:?}");
        }
    }

    #[test]
    fn a_broken_delivery_is_a_failed_attempt_with_its_reason() {
        let error = |e| match of_error(&e) {
            Outcome::Failed { error } => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(DeliveryError::Timeout), "the endpoint did not answer in time");
        assert!(error(DeliveryError::Blocked("10.0.0.1".into())).contains("10.0.0.1"));
        assert_eq!(error(DeliveryError::Tls("ä".repeat(9000))).chars().count(), REASON_MAX);
    }

    #[test]
    fn what_the_server_had_no_means_for_burns_no_attempt_and_holds_no_queue() {
        let outcome = of_error(&DeliveryError::Unable("too many open files".into()));
        let Outcome::Backpressure { retry_after, scope, reason } = outcome else { panic!("{outcome:?}") };
        assert_eq!((retry_after, scope), (Some(UNABLE_WAIT), Some(DeferScope::Job)));
        assert!(reason.is_some_and(|reason| reason.contains("too many open files")));
    }

    #[test]
    fn an_error_says_the_same_of_the_worker_when_it_is_read_back() {
        let text = || "10.0.0.1".to_owned();
        let errors = [
            (DeliveryError::Refused(text()), true),
            (DeliveryError::Dns(text()), true),
            (DeliveryError::Blocked(text()), true),
            (DeliveryError::Unable(text()), true),
            (DeliveryError::Timeout, false),
            (DeliveryError::Reset(text()), false),
            (DeliveryError::Tls(text()), false),
            (DeliveryError::TooLarge, false),
        ];
        for (error, never) in errors {
            assert_eq!(error.never_reached_worker(), never, "{error}");
            assert_eq!(never_reached_worker(&error.to_string()), never, "{error}");
        }
        assert!(!never_reached_worker("the connection was refused by the bank"));
    }

    proptest! {
        #[test]
        fn no_header_can_break_the_reading(
            status: u16, retry_after in prop::option::of(".*"), retry in prop::option::of(".*"),
            effect in prop::option::of(".*"), now: u64,
        ) {
            let response = Response {
                status,
                retry_after: retry_after.as_deref(),
                semel_retry: retry.as_deref(),
                semel_effect: effect.as_deref(),
                json_body: None,
            };
            let outcome = of_response(&response, PushMode::Standard, Timestamp::from_millis(now));
            if let Outcome::Backpressure { retry_after, .. } = outcome {
                let wait = retry_after.unwrap();
                prop_assert!((RESPONSE_WAIT_MIN..=RESPONSE_WAIT_MAX).contains(&wait));
            }
        }
    }
}
