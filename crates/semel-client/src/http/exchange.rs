//! One request and its answer.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use ::http::{HeaderMap, HeaderValue, Method, Request, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use serde::de::DeserializeOwned;

use super::{Client, Error, Failure, Problem};

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
}

impl Ask {
    pub(super) fn get(client: &Client, path: &str) -> Result<Self, Error> {
        Self::new(client, Method::GET, path, Bytes::new())
    }

    pub(super) fn post(client: &Client, path: &str, body: impl Into<Bytes>) -> Result<Self, Error> {
        Self::new(client, Method::POST, path, body.into())
    }

    fn new(client: &Client, method: Method, path: &str, body: Bytes) -> Result<Self, Error> {
        Ok(Self { method, uri: client.address().at(path)?, body, hold: Duration::ZERO })
    }

    /// The server was asked to hold its answer for so long.
    pub(super) fn holding(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }

    fn request(&self, authorization: Option<&HeaderValue>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, JSON);
        if self.method == Method::POST {
            headers.insert(CONTENT_TYPE, JSON);
        }
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

/// The body of an answer that says yes.
#[derive(Debug)]
pub(crate) struct Answer(Bytes);

impl Answer {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.0).map_err(|error| Error::Answer(error.to_string()))
    }
}

impl Client {
    /// Sends a request once, and waits for its answer no longer than this.
    pub(super) async fn exchange(&self, ask: &Ask, patience: Duration) -> Result<Answer, Failure> {
        let late = |_| Failure::Unanswered(format!("not within {:.1} s", patience.as_secs_f64()));
        tokio::time::timeout(patience, self.send(ask)).await.map_err(late)?
    }

    async fn send(&self, ask: &Ask) -> Result<Answer, Failure> {
        let request = ask.request(self.authorization());
        let response = self.pool().request(request).await.map_err(|error| {
            let words = in_words(&error);
            if error.is_connect() { Failure::Unreachable(words) } else { Failure::Unanswered(words) }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await;
        let body = body.map_err(|error| Failure::Unanswered(error.to_string()))?.to_bytes();
        if head.status.is_success() {
            return Ok(Answer(body));
        }
        let wait = retry_after(&head.headers, SystemTime::now());
        Err(Failure::Problem(Box::new(Problem::read(head.status.as_u16(), &body, wait))))
    }
}

/// An error with its causes, which is where the reason is.
fn in_words(error: &hyper_util::client::legacy::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
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
