//! Requests over a real socket, and their answers.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A caller of the server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    base: String,
    secret: Option<String>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, secret: Option<String>) -> Self {
        Self::to(format!("http://{address}"), secret)
    }

    /// A caller of the server at this address: scheme, host and port.
    pub(crate) fn to(base: String, secret: Option<String>) -> Self {
        let pool = Pool::builder(TokioExecutor::new()).build_http();
        Self { pool, base, secret }
    }

    /// Where the server is: scheme, host and port.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The same server, as somebody else.
    pub(crate) fn with_secret(&self, secret: Option<&str>) -> Self {
        Self { secret: secret.map(ToOwned::to_owned), ..self.clone() }
    }

    pub(crate) fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, &[], Some(body.to_string())).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body.to_string())).await
    }

    /// Any request: the body is sent as it is, as JSON unless the headers say otherwise.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(secret) = &self.secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let names_kind = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if body.is_some() && !names_kind {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default()))).unwrap();
        let response = self.pool.request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, text, json }
    }
}

impl Answer {
    /// The answer, if it has this status; else a panic that shows it.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json
    }

    /// A problem with this status and code; everything a problem must have is there.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["code"], code, "{}", self.text);
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["error"], self.json["detail"]);
        assert!(self.json["detail"].as_str().is_some_and(|words| !words.is_empty()), "{}", self.text);
        assert!(self.json["retryable"].is_boolean() && self.json["title"].is_string(), "{}", self.text);
        self.json
    }
}
