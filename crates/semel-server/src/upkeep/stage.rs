//! What the tests of roles play on: a service over the memory store, whose time moves when the test says so.

use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::records::{ApiKeyRecord, Scope};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::group_commit::GroupCommit;
use semel_store::{Command, ManualClock, MemoryStore, Shared, Store};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, mpsc};
use tower_service::Service as _;

use crate::api;
use crate::api::keyring::Keyring;
use crate::metrics::Metrics;
use crate::news::{Heralded, News, Suspect};
use crate::peers::Peers;
use crate::service::{AuthMode, Options, Service};
use crate::stop::{self, Stopper};
use crate::telemetry::Telemetry;
use crate::time::ManualAlarm;

/// Every stage starts here: Sunday, 2026-11-15T12:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_794_744_000_000);

/// A service without sockets, dispatchers or roles.
pub(crate) struct Stage {
    pub(crate) service: Arc<Service>,
    pub(crate) alarm: Arc<ManualAlarm>,
    pub(crate) stopper: Stopper,
    pub(crate) suspects: Option<mpsc::Receiver<Suspect>>,
}

pub(crate) fn name(text: &str) -> QueueName {
    QueueName::try_from(text).unwrap()
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Options { auth: AuthMode::Open, ..Options::default() }).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let alarm = Arc::new(ManualAlarm::new(clock.clone()));
        Self::on(Arc::new(MemoryStore::new(clock)), None, alarm, options).await
    }

    /// A service on a store that others may use, too.
    pub(crate) async fn on(
        store: Arc<dyn Store>,
        shared: Option<Arc<dyn Shared>>,
        alarm: Arc<ManualAlarm>,
        options: Options,
    ) -> Self {
        let (stopper, stop) = stop::pair();
        let (news, suspects) = News::new();
        let news = Arc::new(news);
        let peers = Peers::new(shared, store.now());
        let store: Arc<dyn Store> = Arc::new(Heralded::new(store, news.clone()));
        let (commit, driver) = GroupCommit::start(store.clone(), options.commit);
        tokio::spawn(driver);
        let mut registry = Registry::default();
        let service = Arc::new(Service {
            keyring: Keyring::load(store.as_ref(), options.auth).await.unwrap(),
            intake: Arc::new(Semaphore::new(1024 * 1024)),
            metrics: Metrics::register(&mut registry),
            telemetry: Telemetry::default(),
            replay_tasks: tokio::sync::Mutex::default(),
            alarm: alarm.clone(),
            store,
            commit,
            news,
            options,
            registry,
            peers,
            stop,
        });
        Self { service, alarm, stopper, suspects: Some(suspects) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.service.store.now()
    }

    pub(crate) async fn submit(&self, command: Command) {
        self.service.commit.submit(command).await.unwrap();
    }

    pub(crate) async fn queue(&self, queue: &str, config: QueueConfig) {
        self.submit(Command::PutQueue { name: name(queue), config: Box::new(config) }).await;
    }

    /// Hands out an API key for one queue.
    pub(crate) async fn grant(&self, secret: &str, scopes: Vec<Scope>, queue: &str) {
        let hash = Sha256::digest(secret.as_bytes());
        let record = ApiKeyRecord {
            id: secret.to_owned(),
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            label: String::new(),
            scopes,
            queues: vec![queue.to_owned()],
            created_at: START,
            expires_at: None,
            last_used_at: None,
        };
        self.submit(Command::PutApiKey(Box::new(record))).await;
    }

    pub(crate) async fn publish(&self, queue: &str, key: Option<&str>) -> JobId {
        let mut draft = Draft::new(name(queue), Payload::from_json("1").unwrap());
        draft.key = key.map(|key| Key::try_from(key).unwrap());
        self.service.commit.publish(draft.check().unwrap()).await.unwrap().id
    }

    pub(crate) async fn lease(&self, queue: &str, span: Option<Millis>) -> Delivery {
        let request = LeaseRequest::new(name(queue), 1, span).unwrap();
        self.service.store.lease(request).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn settle(&self, delivery: &Delivery, outcome: Outcome) {
        let settle = Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap();
        self.service.commit.settle(settle).await.unwrap();
    }

    /// Publishes a job and has it die of an error.
    pub(crate) async fn dead(&self, queue: &str, key: Option<&str>, error: &str) -> JobId {
        self.publish(queue, key).await;
        self.kill(queue, error).await
    }

    /// Has the next job of a queue die of an error.
    pub(crate) async fn kill(&self, queue: &str, error: &str) -> JobId {
        let delivery = self.lease(queue, None).await;
        self.settle(&delivery, Outcome::Rejected { error: error.to_owned() }).await;
        delivery.id
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.service.store.job(id).await.unwrap().unwrap()
    }

    /// Asks the API, without a socket; an answer without a body is null.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.ask_with("", method, path, body).await
    }

    /// Asks the API with an API key.
    pub(crate) async fn ask_with(
        &self,
        secret: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {secret}"));
        let request = request.body(Body::from(body)).unwrap();
        let response = api::router(self.service.clone()).call(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() })
    }
}
