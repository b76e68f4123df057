//! One request and its answer.

use std::time::{Duration, SystemTime};

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use ::http::response::Parts;
use ::http::{HeaderMap, HeaderValue, Method, Request, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;

use super::{Client, Error, Failure, Problem, Reply};

/// The largest answer that is read: 256 leased jobs with payloads of 256 KiB, and their envelopes.
const ANSWER_MAX: usize = 96 * 1024 * 1024;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("semel-client/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request, to be sent as often as it takes.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: Method,
    uri: Uri,
    body: Bytes,
    /// How long the server was asked to hold its answer.
    pub(super) hold: Duration,
    /// Whether it is not to be sent again once it may have happened.
    pub(super) once: bool,
}

impl Ask {
    pub(super) fn get(client: &Client, path: &str) -> Result<Self, Error> {
        Self::new(client, Method::GET, path, Bytes::new())
    }

    pub(super) fn post(client: &Client, path: &str, body: impl Into<Bytes>) -> Result<Self, Error> {
        Self::new(client, Method::POST, path, body.into())
    }

    pub(super) fn new(client: &Client, method: Method, path: &str, body: Bytes) -> Result<Self, Error> {
        Ok(Self { method, uri: client.address().at(path)?, body, hold: Duration::ZERO, once: false })
    }

    /// The server was asked to hold its answer for so long.
    pub(super) fn holding(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }

    /// It is not to be sent again once it may have happened.
    pub(super) fn once(self) -> Self {
        Self { once: true, ..self }
    }

    pub(super) fn request(&self, authorization: Option<&HeaderValue>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, JSON);
        if self.method == Method::POST || !self.body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

impl Client {
    /// Sends a request once, and waits for its answer no longer than this.
    pub(super) async fn exchange(&self, ask: &Ask, patience: Duration) -> Result<Reply, Failure> {
        let late = |_| Failure::Unanswered(format!("not within {:.1} s", patience.as_secs_f64()));
        tokio::time::timeout(patience, self.send(ask)).await.map_err(late)?
    }

    async fn send(&self, ask: &Ask) -> Result<Reply, Failure> {
        let request = ask.request(self.authorization());
        let response = self.pool().request(request).await.map_err(|error| failed(&error))?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(Reply { status: head.status.as_u16(), body: whole(body).await? });
        }
        Err(problem(&head, body).await)
    }
}

async fn whole(body: Incoming) -> Result<Bytes, Failure> {
    let body = Limited::new(body, ANSWER_MAX).collect().await;
    Ok(body.map_err(|error| Failure::Unanswered(in_words(error.as_ref())))?.to_bytes())
}

/// What an answer says that is not a yes.
pub(super) async fn problem(head: &Parts, body: Incoming) -> Failure {
    let wait = retry_after(&head.headers, SystemTime::now());
    match whole(body).await {
        Ok(body) => Failure::Problem(Box::new(Problem::read(head.status.as_u16(), &body, wait))),
        Err(failure) => failure,
    }
}

/// Why there is no answer.
pub(super) fn failed(error: &hyper_util::client::legacy::Error) -> Failure {
    let words = in_words(error);
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<hyper::Error>());
    if error.is_connect() {
        Failure::Unreachable(words)
    } else if cause.is_some_and(hyper::Error::is_parse) {
        Failure::Nonsense(words)
    } else {
        Failure::Unanswered(words)
    }
}

/// The innermost cause of an error, which is where the reason is; what is around it only says who noticed.
pub(super) fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.last().unwrap_or(error).to_string()
}

/// The header `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 15 Nov 2026 12:00:00 GMT").unwrap();
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Sun, 15 Nov 2026 12:01:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(read("Sun, 15 Nov 2026 11:00:00 GMT"), Some(Duration::ZERO), "a date that has passed");
        assert_eq!(read("soon"), None);
    }
}
