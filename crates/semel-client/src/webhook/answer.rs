//! What a webhook answers.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;

use super::Rejection;
use crate::outcome::Said;
use crate::{Effect, Outcome, Receipt, time};

pub(super) type Answer = Response<Full<Bytes>>;

const EFFECT: HeaderName = HeaderName::from_static("semel-effect");
const RETRY: HeaderName = HeaderName::from_static("semel-retry");

/// The answer that says what the handler said.
pub(super) fn of(outcome: Outcome) -> Answer {
    match outcome.0 {
        Said::Done { result, effect } => {
            let body = result.map_or_else(String::new, |result| Box::<str>::from(result).into());
            with_receipt(with(StatusCode::OK, "application/json", body), effect.as_ref())
        }
        // The scope cannot be said in an answer: that of the queue counts.
        Said::Later { wait, reason, .. } => {
            let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, reason.unwrap_or_default());
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(time::whole_seconds(wait)));
            answer
        }
        Said::Failed { reason, retryable, effect } => {
            let mut answer = text(StatusCode::INTERNAL_SERVER_ERROR, reason);
            if !retryable {
                answer.headers_mut().insert(RETRY, HeaderValue::from_static("no"));
            }
            with_receipt(answer, effect.as_ref())
        }
    }
}

/// A request that is not taken. It says why, for whoever reads the job's history; the secrets are not in it.
pub(super) fn rejected(rejection: &Rejection) -> Answer {
    let status = match rejection {
        Rejection::Body(_) => StatusCode::BAD_REQUEST,
        Rejection::Header(_) | Rejection::Time(_) | Rejection::Signature => StatusCode::UNAUTHORIZED,
    };
    text(status, rejection.to_string())
}

/// A short answer in words.
pub(super) fn text(status: StatusCode, words: String) -> Answer {
    with(status, "text/plain; charset=utf-8", words)
}

fn with(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn with_receipt(mut answer: Answer, receipt: Option<&Receipt>) -> Answer {
    let name = receipt.map(|receipt| match receipt.outcome {
        Effect::Applied => "applied",
        Effect::Replayed => "replayed",
        Effect::None => "none",
    });
    if let Some(name) = name {
        answer.headers_mut().insert(EFFECT, HeaderValue::from_static(name));
    }
    answer
}
