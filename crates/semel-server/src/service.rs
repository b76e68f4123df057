//! The server put together: a store, the way to it, and everything that runs beside the API.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use semel_core::time::Timestamp;
use semel_store::group_commit::{self, GroupCommit};
use semel_store::observed::Metrics as StoreMetrics;
use semel_store::{Observed, Shared, Store, StoreError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::api;
use crate::api::keyring::Keyring;
use crate::delivery::call::Caller;
use crate::delivery::dispatch::Dispatchers;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::news::{Heralded, News};
use crate::peers::{self, Identity, Pace, Peers};
use crate::stop::{self, Stop, Stopper};
use crate::telemetry::{self, Export, Telemetry};
use crate::time::{Alarm, Sleeper};
use crate::upkeep;

/// Who may use the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Whoever can reach it. Only for a server that listens on loopback.
    Open,
    /// Whoever has an API key.
    Keys,
}

/// How a server is to behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// Dev mode: a publish to an unknown queue makes it, as a pull queue.
    pub dev: bool,
    /// Who may use the API.
    pub auth: AuthMode,
    /// Largest body of a request, in bytes. A payload at its queue's default limit fits, with its envelope.
    pub body_limit: usize,
    /// Largest body of a batch, in bytes.
    pub batch_body_limit: usize,
    /// Bytes of bodies that may be in hand at once; the next request is turned away. It bounds memory where the number of
    /// waiting commands does not.
    pub intake_bytes: usize,
    /// How group commit is to behave.
    pub commit: group_commit::Options,
    /// Deliveries of one push queue that may be under way at once, if the queue itself says nothing.
    pub in_flight_per_queue: u32,
    /// How often to look for work that nobody announced.
    pub poll: Duration,
    /// Where dead letters are archived; nowhere if absent.
    pub archive: Option<PathBuf>,
    /// What this node is called.
    pub identity: Identity,
    /// How often it does what keeps it in touch with other nodes, on a store that has some.
    pub pace: Pace,
    /// Where a person reads along; nowhere if absent.
    pub journal: Option<Journal>,
    /// Where spans are sent to; nowhere if absent.
    pub telemetry: Option<Export>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dev: false,
            auth: AuthMode::Keys,
            body_limit: 1024 * 1024,
            batch_body_limit: 16 * 1024 * 1024,
            intake_bytes: 256 * 1024 * 1024,
            commit: group_commit::Options::default(),
            in_flight_per_queue: 64,
            poll: Duration::from_secs(30),
            archive: None,
            identity: Identity::default(),
            pace: Pace::default(),
            journal: None,
            telemetry: None,
        }
    }
}

/// What every request and every role works with.
pub struct Service {
    /// The store, watched and heralded. Reads and leases go here.
    pub store: Arc<dyn Store>,
    /// The way changes take to the store.
    pub commit: GroupCommit,
    /// What happened.
    pub news: Arc<News>,
    /// Waiting for the store's time.
    pub alarm: Arc<dyn Alarm>,
    /// How the server is to behave.
    pub options: Options,
    /// Who holds which API key.
    pub keyring: Keyring,
    /// Room for bodies.
    pub intake: Arc<Semaphore>,
    /// What is counted besides the store.
    pub metrics: Metrics,
    /// Where spans go.
    pub telemetry: Telemetry,
    /// Everything `/metrics` shows.
    pub registry: Registry,
    /// Held while a replay task is read, changed and written back, so that counts of a page are not lost.
    pub replay_tasks: tokio::sync::Mutex<()>,
    /// The other nodes.
    pub peers: Peers,
    /// When everything is to end.
    pub stop: Stop,
}

/// Shortest wait before a queue that may be ready is looked at again. A store may say "now" a little early.
const LEAST_WAIT: Duration = Duration::from_millis(5);

impl Service {
    /// Waits until a queue may have something that nobody announces: until its next job is due, or until it is time to
    /// look for what other nodes did.
    pub async fn until_due(&self, due: Option<Timestamp>) {
        let due = async {
            match due {
                Some(at) => {
                    tokio::time::sleep(LEAST_WAIT).await;
                    self.alarm.until(at).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = tokio::time::sleep(self.options.poll) => {}
        }
    }

    /// Brings the gauges up to date. The wall around the store takes down what passes it; only what the store does not count
    /// is told here.
    pub async fn take_stock(&self) -> Result<(), StoreError> {
        self.metrics.queues(&self.store.queues().await?);
        self.store.stats().await?;
        self.store.health().await.map(drop)
    }

    /// When to come back, if more commands are waiting than one should add to.
    pub fn overloaded(&self) -> Option<Duration> {
        (self.commit.waiting() >= self.options.commit.capacity).then_some(Duration::from_secs(1))
    }
}

/// A server that runs. Its sockets are the caller's: [`Running::router`] answers whatever comes in.
pub struct Running {
    service: Arc<Service>,
    stopper: Stopper,
    driver: JoinHandle<()>,
    dispatchers: Dispatchers,
    roles: upkeep::Roles,
    touch: peers::Tasks,
    spans: telemetry::Sending,
}

impl Running {
    /// Starts everything but the sockets. A store that other nodes use, too, comes with what they share; `alarm` is for
    /// tests that move time themselves.
    pub async fn start(
        backend: Arc<dyn Store>,
        shared: Option<Arc<dyn Shared>>,
        caller: Caller,
        alarm: Option<Arc<dyn Alarm>>,
        mut options: Options,
    ) -> Result<Self, StoreError> {
        if shared.is_some() {
            options.poll = options.poll.max(peers::POLL);
        }
        let (stopper, stop) = stop::pair();
        let (news, suspects) = News::new();
        let news = Arc::new(news);
        let mut registry = Registry::default();
        let store_metrics = StoreMetrics::register(&mut registry);
        let metrics = Metrics::register(registry.sub_registry_with_prefix("semel"));
        let observed: Arc<dyn Store> = Arc::new(Observed::new(backend, store_metrics));
        let store: Arc<dyn Store> = Arc::new(Heralded::new(observed, news.clone()));
        let peers = Peers::new(shared, store.now());
        let (commit, driver) = GroupCommit::start(store.clone(), options.commit);
        let (telemetry, spans) = telemetry::start(options.telemetry.clone(), &options.identity, &metrics);
        let service = Arc::new(Service {
            alarm: alarm.unwrap_or_else(|| Arc::new(Sleeper::new(store.clone()))),
            keyring: Keyring::load(store.as_ref(), options.auth).await?,
            intake: Arc::new(Semaphore::new(options.intake_bytes.min(Semaphore::MAX_PERMITS))),
            store,
            commit,
            news,
            options,
            metrics,
            telemetry,
            registry,
            replay_tasks: tokio::sync::Mutex::new(()),
            peers,
            stop,
        });
        let driver = tokio::spawn(driver);
        let dispatchers = Dispatchers::start(service.clone(), caller);
        let roles = upkeep::start(&service, suspects);
        let touch = Peers::start(&service);
        if let Some(journal) = service.options.journal.clone() {
            tokio::spawn(journal.follow(service.news.listen(), service.stop.clone()));
        }
        Ok(Self { service, stopper, driver, dispatchers, roles, touch, spans })
    }

    /// What every request works with.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Answers requests.
    pub fn router(&self) -> axum::Router {
        api::router(self.service.clone())
    }

    /// Asks everything to stop, without waiting: long polls are answered and nothing more is leased. What is under way
    /// still reaches the store, until [`Running::stop`].
    pub fn begin_stop(&self) {
        self.stopper.stop();
    }

    /// Ends: takes no more leases, gives deliveries under way until `grace` is over and puts the rest back, finishes what
    /// was accepted, and closes the store. Close the sockets before.
    pub async fn stop(self, grace: Duration) -> Result<(), StoreError> {
        self.stopper.stop();
        self.dispatchers.stop(grace).await;
        self.roles.stop().await;
        self.service.commit.close().await;
        // The driver ends with the queue it serves; a panic in it was reported when it happened.
        drop(self.driver.await);
        self.touch.stop().await;
        self.spans.stop().await;
        self.service.store.close().await
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
