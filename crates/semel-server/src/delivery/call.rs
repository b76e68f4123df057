//! Calling a webhook: one request, one answer or one error, within one deadline.
//!
//! There is nothing here that a browser would do: no redirect is followed, no proxy asked, no cookie kept, nothing
//! unpacked. A request that may have reached the worker is never sent again; that is for the queue's retry to decide.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HOST, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode, response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use semel_core::outcome::{self, DeliveryError, Outcome};
use semel_core::payload::Payload;
use semel_core::queue::PushMode;
use semel_core::settle::RESULT_MAX;
use semel_core::time::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::connect::{Connection, Connector, Post};
use super::dial::Dial;
use super::endpoint::Endpoint;
use super::guard::Guard;
use super::pool::Pool;
use super::resolve::Resolver;
use super::tls::{self, TlsError};

/// How long the body of an answer is waited for when it decides nothing. It is read only so that the connection can be
/// used again, which is not worth holding a slot of the queue for.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// What a caller is made of.
pub struct CallerOptions {
    /// Which addresses may be called.
    pub guard: Guard,
    /// How names become addresses.
    pub resolver: Arc<dyn Resolver>,
    /// How addresses become connections.
    pub dial: Arc<dyn Dial>,
    /// A PEM file of authorities to trust besides the system's.
    pub extra_ca: Option<PathBuf>,
    /// How many unused connections are kept per host. With fewer than deliveries at a time, some connect anew each time.
    pub idle_per_host: usize,
}

/// Calls webhooks. Clones share their connections.
#[derive(Clone)]
pub struct Caller {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
}

/// A request to a webhook.
#[derive(Debug, Clone)]
pub struct Call {
    /// Where to.
    pub url: Arc<Endpoint>,
    /// All headers but `Host` and the length, which are set here.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The time for everything: name, connection, TLS, request, and the answer to its last byte.
    pub timeout: Duration,
}

/// What the webhook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The header `Semel-Retry`.
    pub semel_retry: Option<String>,
    /// The header `Semel-Effect`.
    pub semel_effect: Option<String>,
    /// The body of a 2xx answer, if it is JSON and not too large.
    pub body: Option<Payload>,
}

impl Answer {
    fn new(head: &response::Parts, body: Option<Payload>) -> Self {
        let header = |name: &str| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
        Self {
            status: head.status.as_u16(),
            retry_after: header(RETRY_AFTER.as_str()),
            semel_retry: header("semel-retry"),
            semel_effect: header("semel-effect"),
            body,
        }
    }

    /// What the answer means for the delivery.
    pub fn outcome(&self, mode: PushMode, now: Timestamp) -> Outcome {
        let response = outcome::Response {
            status: self.status,
            retry_after: self.retry_after.as_deref(),
            semel_retry: self.semel_retry.as_deref(),
            semel_effect: self.semel_effect.as_deref(),
            json_body: self.body.as_ref(),
        };
        outcome::of_response(&response, mode, now)
    }
}

impl Caller {
    /// A caller without any connection yet. Fails if the authorities cannot be loaded.
    pub fn new(options: CallerOptions) -> Result<Self, TlsError> {
        let CallerOptions { guard, resolver, dial, extra_ca, idle_per_host } = options;
        let tls = tls::client_config(extra_ca.as_deref())?;
        let connector = Arc::new(Connector { guard, resolver, dial, tls });
        Ok(Self { connector, pool: Pool::new(idle_per_host) })
    }

    /// Calls a webhook. Dropping the future breaks the call off.
    pub async fn call(&self, call: Call) -> Result<Answer, DeliveryError> {
        let deadline = Instant::now() + call.timeout;
        let url = call.url.clone();
        let sent = timeout_at(deadline, self.send(call)).await;
        let (response, mut connection) = sent.map_err(|_| DeliveryError::Timeout)??;
        let (head, body) = response.into_parts();
        let body = finish(head.status, body, deadline).await?;
        if body.is_whole() && connection.becomes_free().await {
            self.pool.put(url.origin(), connection);
        }
        Ok(Answer::new(&head, body.json()))
    }

    /// Sends the request over a free connection or a new one, and waits for the head of the answer.
    async fn send(&self, call: Call) -> Result<(Response<Incoming>, Connection), DeliveryError> {
        let origin = call.url.origin().clone();
        let mut post = post(call);
        if let Some(mut connection) = self.pool.take(&origin) {
            match connection.send(post).await {
                Ok(response) => return Ok((response, connection)),
                // Given back, so not a byte was written: the endpoint had closed it while it lay idle.
                Err(mut failure) => post = failure.take_message().ok_or_else(|| broken(failure.error()))?,
            }
        }
        let mut connection = self.connector.connect(&origin).await?;
        let response = connection.send(post).await.map_err(|failure| broken(failure.error()))?;
        Ok((response, connection))
    }
}

fn post(call: Call) -> Post {
    let mut post = Request::new(Full::new(call.body));
    *post.method_mut() = Method::POST;
    *post.uri_mut() = call.url.target().clone();
    *post.headers_mut() = call.headers;
    post.headers_mut().insert(HOST, call.url.host().clone());
    post
}

/// What was read of a body.
enum Body {
    /// All of it, of an answer whose body counts.
    Whole(Bytes),
    /// All of it, and it does not matter what it said.
    Drained,
    /// Not all of it: it was too large, or decided nothing and did not end. Its connection is of no more use.
    Left,
}

impl Body {
    fn is_whole(&self) -> bool {
        !matches!(self, Self::Left)
    }

    /// Judged by what it is, not by what its content type says: many workers answer JSON as text.
    fn json(self) -> Option<Payload> {
        match self {
            Self::Whole(bytes) if !bytes.is_empty() => Payload::from_json(bytes).ok(),
            _ => None,
        }
    }
}

/// Reads the body as far as it matters.
///
/// The body of a 2xx answer is the job's result, so the answer is not complete without its end: if that does not come in
/// time, or the connection breaks, the delivery failed. Any other answer says everything with its status, which stands
/// whatever becomes of the body.
async fn finish(status: StatusCode, body: Incoming, deadline: Instant) -> Result<Body, DeliveryError> {
    if status.is_success() {
        let read = timeout_at(deadline, read(body)).await;
        return read.map_err(|_| DeliveryError::Timeout)?.map_err(|error| broken(&error));
    }
    let patience = deadline.min(Instant::now() + DRAIN_MAX);
    match timeout_at(patience, read(body)).await {
        Ok(Ok(Body::Whole(_))) => Ok(Body::Drained),
        _ => Ok(Body::Left),
    }
}

/// Reads a body to its end, or until it is larger than a result can be. The rest is then not read at all, however long.
async fn read(mut body: Incoming) -> hyper::Result<Body> {
    let mut all = BytesMut::new();
    // An answer that announces too much is not waited for.
    if body.size_hint().lower() > u64::try_from(RESULT_MAX).unwrap_or(u64::MAX) {
        return Ok(Body::Left);
    }
    while let Some(frame) = body.frame().await.transpose()? {
        // Trailers are read past: nothing in them is asked for.
        if let Some(data) = frame.data_ref() {
            if all.len() + data.len() > RESULT_MAX {
                return Ok(Body::Left);
            }
            all.extend_from_slice(data);
        }
    }
    Ok(Body::Whole(all.freeze()))
}

fn broken(error: &hyper::Error) -> DeliveryError {
    if error.is_parse_too_large() {
        return DeliveryError::TooLarge;
    }
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    DeliveryError::Reset(format!("{error}{cause}"))
}
