//! The body of a request: bounded in size, in what it may be, and in how many are in hand at once.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;

use super::code::Code;
use super::problem::Problem;
use crate::service::Service;

/// A whole body. While it lives, its bytes count against what may be in hand at once.
#[derive(Debug)]
pub(super) struct Body<const BATCH: bool = false> {
    /// The bytes.
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// The body of a batch, which may be larger.
pub(super) type BatchBody = Body<true>;

impl<const BATCH: bool> FromRequest<Arc<Service>> for Body<BATCH> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        let limit = if BATCH { service.options.batch_body_limit } else { service.options.body_limit };
        let (parts, body) = request.into_parts();
        check_kind(&parts.headers)?;
        let announced = announced_length(&parts.headers);
        if announced.is_some_and(|length| length > limit) {
            pour_away(body).await;
            return Err(too_large(limit));
        }
        let room = room(service, announced.unwrap_or(limit))?;
        let collected = Limited::new(body, limit).collect().await.map_err(|error| broken(&*error, limit))?;
        Ok(Self { bytes: collected.to_bytes(), _room: room })
    }
}

/// Most bytes of a body that is too large which are received all the same.
const POURED_MAX: usize = 32 * 1024 * 1024;

/// Receives a body without keeping any of it. A client that is still sending when it is answered and cut off may never
/// see the answer; one that has sent everything sees it, and can go on using its connection.
async fn pour_away(body: axum::body::Body) {
    let mut body = Limited::new(body, POURED_MAX);
    while let Some(Ok(_)) = body.frame().await {}
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Room is taken before the body is read: what cannot be held must not be received.
pub(super) fn room(service: &Service, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    service.intake.clone().try_acquire_many_owned(bytes).map_err(|_| {
        Problem::new(Code::Overloaded, "too many bytes are in hand already: try again")
            .retry_after(std::time::Duration::from_secs(1))
    })
}

fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let wrong = |words: &str| Err(Problem::new(Code::UnsupportedMediaType, words));
    match headers.get(header::CONTENT_ENCODING).map(http::HeaderValue::as_bytes) {
        None | Some(b"identity" | b"") => {}
        Some(_) => return wrong("compressed bodies are not read: send the body without a Content-Encoding"),
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json =
        essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json");
    if is_json { Ok(()) } else { wrong("the body must be JSON: send Content-Type: application/json") }
}

fn too_large(limit: usize) -> Problem {
    let words =
        format!("the body is larger than the {limit} bytes this server takes: send less, or in parts");
    Problem::new(Code::BodyTooLarge, words)
}

fn broken(error: &(dyn std::error::Error + 'static), limit: usize) -> Problem {
    if error.downcast_ref::<LengthLimitError>().is_some() {
        return too_large(limit);
    }
    Problem::new(Code::BodyTimeout, format!("the body did not arrive whole: {error}"))
}
