//! A server that answers what the test wrote down, and remembers what it was asked.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Play {
    answers: VecDeque<Response>,
    asked: Vec<Asked>,
}

/// A server that reads its answers from a list, and answers 503 when it is at its end.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    play: Arc<Mutex<Play>>,
    server: JoinHandle<()>,
}

/// An answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Body::from(body.to_owned())).unwrap()
}

/// What a server says that has published a job.
pub(crate) fn published(id: &str) -> Response {
    answer(201, &[], &published_body(id))
}

pub(crate) fn published_body(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","queue":"q","status":"pending","createdAt":"2026-11-15T12:00:00.000Z","deduplicated":false,"payloadMatches":true,"keyExpiresAt":null}}"#
    )
}

impl Scripted {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Response>) -> Self {
        let play = Play { answers: answers.into_iter().collect(), asked: Vec::new() };
        let play = Arc::new(Mutex::new(play));
        let shared = play.clone();
        let router = Router::new().fallback(move |request: Request| perform(shared.clone(), request));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, play, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.play.lock().unwrap().asked.clone()
    }
}

async fn perform(play: Arc<Mutex<Play>>, request: Request) -> Response {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let asked = Asked {
        at,
        path: head.uri.to_string(),
        authorization,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let mut play = play.lock().unwrap();
    play.asked.push(asked);
    play.answers.pop_front().unwrap_or_else(|| answer(503, &[], ""))
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.server.abort();
    }
}
