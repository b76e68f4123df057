//! What a collector is to the server: an HTTP endpoint that takes OTLP, keeps it, and answers as the test says.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use semel_server::delivery::endpoint::Endpoint;
use semel_server::service::Options;
use semel_server::telemetry::Export;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::kit::{Backend, World, caller, usual_options};

/// How the collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// As it should.
    Content,
    /// Never.
    Silent,
}

/// A collector on a real socket.
pub(super) struct Collector {
    address: String,
    received: Received,
    server: tokio::task::JoinHandle<()>,
}

type Received = Arc<Mutex<Vec<Value>>>;

impl Collector {
    pub(super) async fn start(mood: Mood) -> Self {
        let received = Received::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let app = Router::new().route("/v1/traces", post(take)).with_state((mood, received.clone()));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, received, server }
    }

    /// The way to it.
    pub(super) fn export(&self) -> Export {
        export_to(&self.address)
    }

    /// All spans that have come, and what they say of where they come from.
    pub(super) fn spans(&self) -> Vec<Span> {
        let requests = self.received.lock().unwrap();
        let resources =
            requests.iter().flat_map(|request| request["resourceSpans"].as_array().unwrap().iter());
        let scopes = resources.flat_map(|resource| {
            assert_eq!(attribute(&resource["resource"], "service.name"), Some("semel".into()));
            resource["scopeSpans"].as_array().unwrap().iter()
        });
        scopes.flat_map(|scope| scope["spans"].as_array().unwrap()).cloned().map(Span).collect()
    }

    /// The only span of this name.
    pub(super) fn span(&self, name: &str) -> Span {
        let mut found: Vec<_> = self.spans().into_iter().filter(|span| span.0["name"] == name).collect();
        assert_eq!(found.len(), 1, "one span {name} in {:#?}", self.spans());
        found.remove(0)
    }

    /// Everything that has come, as text.
    pub(super) fn text(&self) -> String {
        self.received.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The way to a collector at this address.
pub(super) fn export_to(address: &str) -> Export {
    let headers = HeaderMap::from_iter([("api-key".parse().unwrap(), "collector-secret".parse().unwrap())]);
    Export { caller: caller(), endpoint: Endpoint::parse(address).unwrap().into(), headers, sample: 1.0 }
}

/// A server that sends its spans there.
pub(super) async fn world_with(backend: Backend, export: Export) -> World {
    World::shaped(backend, |dir| Options { telemetry: Some(export), ..usual_options(dir) }).await
}

async fn take(State((mood, received)): State<(Mood, Received)>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(
        (&headers["content-type"], &headers["api-key"]),
        (&"application/json".parse().unwrap(), &"collector-secret".parse().unwrap())
    );
    if mood == Mood::Silent {
        std::future::pending::<()>().await;
    }
    received.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    (StatusCode::OK, "{}").into_response()
}

/// A span, as it came.
#[derive(Debug, Clone)]
pub(super) struct Span(pub(super) Value);

impl Span {
    pub(super) fn trace(&self) -> &str {
        self.0["traceId"].as_str().unwrap()
    }

    pub(super) fn id(&self) -> &str {
        self.0["spanId"].as_str().unwrap()
    }

    pub(super) fn parent(&self) -> Option<&str> {
        self.0["parentSpanId"].as_str()
    }

    /// An attribute, as text.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        attribute(&self.0, name)
    }

    /// The names of its events.
    pub(super) fn events(&self) -> Vec<&str> {
        let events = self.0["events"].as_array().into_iter().flatten();
        events.map(|event| event["name"].as_str().unwrap()).collect()
    }

    /// What a span of this kind must have, whatever it is of.
    pub(super) fn is_of(&self, queue: &str, operation: (&str, &str), kind: u64) {
        let (name, of_type) = operation;
        for (attribute, value) in [
            ("messaging.system", "semel"),
            ("messaging.destination.name", queue),
            ("messaging.operation.name", name),
            ("messaging.operation.type", of_type),
        ] {
            assert_eq!(self.attribute(attribute).as_deref(), Some(value), "{attribute} of {self:?}");
        }
        assert_eq!(self.0["kind"], kind, "{self:?}");
        let time = |name: &str| self.0[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(
            time("startTimeUnixNano") > 0 && time("startTimeUnixNano") <= time("endTimeUnixNano"),
            "{self:?}"
        );
    }
}

fn attribute(of: &Value, name: &str) -> Option<String> {
    let all = of["attributes"].as_array().unwrap();
    let value = &all.iter().find(|attribute| attribute["key"] == name)?["value"];
    let text = |key: &str| value[key].as_str().map(ToOwned::to_owned);
    text("stringValue")
        .or_else(|| text("intValue"))
        .or_else(|| Some(value["boolValue"].as_bool()?.to_string()))
}
