//! A worker with a webhook on a real socket. The scenario decides what it answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::within;

/// One call of the webhook.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

impl Received {
    /// A header that must be there.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", self.headers));
        value.to_str().unwrap()
    }

    /// The job.
    pub(crate) fn id(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }

    /// When it went out by the store's clock, in seconds: how a scenario sees that nothing went out before its time.
    pub(crate) fn sent_at(&self) -> u64 {
        self.header("webhook-timestamp").parse().unwrap()
    }
}

/// An answer of a webhook.
pub(crate) fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Response {
    let mut response = (StatusCode::from_u16(status).unwrap(), body.to_owned()).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

type Answering = dyn Fn(&Received) -> Response + Send + Sync;

/// A worker. It answers 200 until it is told otherwise.
pub(crate) struct Worker {
    address: SocketAddr,
    answering: Arc<Mutex<Arc<Answering>>>,
    calls: mpsc::UnboundedReceiver<Received>,
    busy: watch::Sender<bool>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    answering: Arc<Mutex<Arc<Answering>>>,
    calls: mpsc::UnboundedSender<Received>,
    busy: watch::Receiver<bool>,
}

impl Worker {
    pub(crate) async fn start() -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let usual: Arc<Answering> = Arc::new(|_: &Received| StatusCode::OK.into_response());
        let answering = Arc::new(Mutex::new(usual));
        let (busy, is_busy) = watch::channel(false);
        let shared = Shared { answering: answering.clone(), calls: sender, busy: is_busy };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/hook", post(receive)).with_state(shared);
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, answering, calls, busy, server }
    }

    /// Where jobs are to be posted to.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What it answers from now on.
    pub(crate) fn answers(&self, answer: impl Fn(&Received) -> Response + Send + Sync + 'static) {
        *self.answering.lock().unwrap() = Arc::new(answer);
    }

    /// Answers no call until [`Worker::go_on`]. What it will answer is decided when the call comes.
    pub(crate) fn hold_answers(&self) {
        self.busy.send_replace(true);
    }

    /// Answers the calls that wait, and those that come.
    pub(crate) fn go_on(&self) {
        self.busy.send_replace(false);
    }

    /// The next call of the webhook.
    pub(crate) async fn call(&mut self) -> Received {
        within(self.calls.recv()).await.unwrap()
    }

    /// The calls that have come and that nobody asked for yet.
    pub(crate) fn calls_so_far(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(mut shared): State<Shared>, headers: HeaderMap, bytes: Bytes) -> Response {
    let body = serde_json::from_slice(&bytes).unwrap();
    let received = Received { headers, bytes, body };
    let answering = shared.answering.lock().unwrap().clone();
    let answer = answering(&received);
    // A scenario that has ended no longer listens.
    drop(shared.calls.send(received));
    // A worker that is gone holds nothing back.
    drop(shared.busy.wait_for(|busy| !busy).await);
    answer
}
