//! A server with a store, a clock and a socket.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_core::records::{ApiKeyRecord, Scope};
use semel_core::time::{Millis, Timestamp};
use semel_server::credentials;
use semel_server::delivery::call::{Caller, CallerOptions};
use semel_server::delivery::dial::TcpDial;
use semel_server::delivery::guard::Guard;
use semel_server::delivery::resolve::SystemResolver;
use semel_server::net::{self, Server};
use semel_server::peers::Pace;
use semel_server::service::{AuthMode, Options, Running};
use semel_server::stop::{self, Stopper};
use semel_server::time::ManualAlarm;
use semel_store::{Clock, Command, ManualClock, Store};
use semel_store_postgres::PostgresStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Answer, Backend, Client, Events, Home, Line, Opened, Worker, within};

/// Where every scenario's time starts: 2026-11-15T12:00:00Z, a Sunday.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_794_744_000_000);

/// A server that runs, and a client of it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) running: Running,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) home: Arc<Home>,
    postgres: Option<Arc<PostgresStore>>,
    backend: Backend,
    options: Options,
    address: SocketAddr,
    alarm: Arc<ManualAlarm>,
    stopper: Stopper,
    sockets: JoinHandle<()>,
}

pub(crate) fn secs(seconds: u64) -> Millis {
    Millis::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Millis {
    Millis::from_millis(millis)
}

/// A time as the API writes it.
pub(crate) fn text(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.millis().try_into().unwrap()).unwrap();
    format!("{at:.3}")
}

/// Looks for unannounced work are further apart than any scenario lasts, so that news that were not told show as a hang and
/// not as a delay.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// A server that is open to everybody on the machine, as most scenarios want it.
pub(crate) fn usual_options(_: &Path) -> Options {
    let pace = Pace { sweep: NEVER, sweep_deaf: NEVER, ..Pace::default() };
    Options { auth: AuthMode::Open, poll: NEVER, pace, ..Options::default() }
}

impl World {
    /// The usual server.
    pub(crate) async fn start(backend: Backend) -> Self {
        Self::shaped(backend, usual_options).await
    }

    /// A server whose options may depend on the directory that is its own. One that asks for API keys has one, with which
    /// the client may do everything.
    pub(crate) async fn shaped(backend: Backend, options: impl FnOnce(&Path) -> Options) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let home = backend.home().await;
        let options = options(home.path());
        let opened = backend.open(&home, clock.clone()).await;
        let (home, alarm) = (Arc::new(home), Arc::new(ManualAlarm::new(clock.clone())));
        let secret = match options.auth {
            AuthMode::Open => None,
            AuthMode::Keys => Some(bootstrap(opened.store.as_ref()).await),
        };
        Self::on(backend, opened, clock, alarm, home, options, secret).await
    }

    /// Another node on the same database, by the same clock.
    pub(crate) async fn join(&self, store: semel_store_postgres::Options, options: Options) -> Self {
        let opened = PostgresStore::open(self.home.database().url(), store).await;
        let (opened, secret) = (Opened::node(opened.unwrap()), self.client.secret().map(ToOwned::to_owned));
        let (clock, alarm, home) = (self.clock.clone(), self.alarm.clone(), self.home.clone());
        Self::on(self.backend, opened, clock, alarm, home, options, secret).await
    }

    /// Cuts the server off from its store, as a crash would: when this returns, it can neither say nor do anything.
    pub(crate) async fn cut_off(&self) {
        let store = self.postgres.as_ref().expect("only a node can be cut off");
        store.abandon();
        let connections = format!(
            "SELECT count(*) FROM pg_stat_activity a JOIN semel.node n ON a.application_name = 'semel ' || n.name
              WHERE a.datname = current_database() AND n.id = {}",
            store.node()
        );
        let gone = async || (self.home.database().sql(&connections).unwrap() == "0").then_some(());
        within(eventually(gone)).await;
    }

    async fn on(
        backend: Backend,
        Opened { store, shared, postgres }: Opened,
        clock: Arc<ManualClock>,
        alarm: Arc<ManualAlarm>,
        home: Arc<Home>,
        options: Options,
        secret: Option<String>,
    ) -> Self {
        let running =
            Running::start(store, shared, caller(), Some(alarm.clone()), options.clone()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stopper, stop) = stop::pair();
        let server = Server::new(running.router());
        let sockets = tokio::spawn(async move {
            net::serve(listener, server, stop).await;
        });
        let client = Client::new(address, secret);
        Self { client, running, clock, home, postgres, backend, options, address, alarm, stopper, sockets }
    }

    /// Ends the server, lets `away` pass, and starts another on the same store, which must be one that outlives it.
    pub(crate) async fn restart(self, away: Millis) -> Self {
        assert_ne!(self.backend, Backend::Memory, "the memory store ends with its server");
        let Self { client, running, clock, home, backend, options, stopper, sockets, alarm, .. } = self;
        stopper.stop();
        sockets.await.unwrap();
        running.stop(Duration::from_secs(10)).await.unwrap();
        clock.advance(away);
        let opened = backend.open(&home, clock.clone()).await;
        Self::on(backend, opened, clock, alarm, home, options, client.secret().map(ToOwned::to_owned)).await
    }

    /// Listens to the event stream at this path.
    pub(crate) async fn events(&self, path: &str) -> Events {
        Events::listen(self.address, path).await
    }

    /// A connection of its own.
    pub(crate) async fn line(&self) -> Line {
        Line::open(self.address).await
    }

    /// Ends the server the way a signal would; nothing may be left running.
    pub(crate) async fn end(self) {
        self.stopper.stop();
        self.sockets.await.unwrap();
        self.running.stop(Duration::from_secs(10)).await.unwrap();
    }

    /// Moves time on; everybody who waits for it is woken.
    pub(crate) fn advance(&self, span: Millis) {
        self.alarm.advance(span);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes a queue with these settings.
    pub(crate) async fn queue(&self, name: &str, config: Value) -> Value {
        self.client.put(&format!("/v1/queues/{name}"), config).await.expect(201)
    }

    /// Makes a push queue to this worker; `delivery` and `config` are what it has besides.
    pub(crate) async fn push_queue(
        &self,
        name: &str,
        worker: &Worker,
        mut delivery: Value,
        mut config: Value,
    ) -> Value {
        delivery["type"] = json!("push");
        delivery["url"] = json!(worker.url());
        config["delivery"] = delivery;
        self.queue(name, config).await
    }

    /// How a queue stands.
    pub(crate) async fn look_at(&self, queue: &str) -> Value {
        self.client.get(&format!("/v1/queues/{queue}")).await.expect(200)
    }

    /// The time by the store's clock, in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.now().millis() / 1000
    }

    /// The time in so many seconds, as the API writes it.
    pub(crate) fn in_secs(&self, seconds: u64) -> String {
        text(self.now().plus(secs(seconds)))
    }

    /// Publishes, and returns the answer to a publish that was to make a job.
    pub(crate) async fn publish(&self, queue: &str, body: Value) -> Value {
        self.client.post(&format!("/v1/queues/{queue}/jobs"), body).await.expect(201)
    }

    pub(crate) async fn job(&self, id: &str) -> Value {
        self.client.get(&format!("/v1/jobs/{id}")).await.expect(200)
    }

    /// Leases up to `max` jobs without waiting.
    pub(crate) async fn lease(&self, queue: &str, max: u32) -> Vec<Value> {
        let answer =
            self.client.post(&format!("/v1/queues/{queue}/lease"), json!({ "max": max })).await.expect(200);
        answer["jobs"].as_array().unwrap().clone()
    }

    /// Leases the one job that must be ready.
    pub(crate) async fn lease_one(&self, queue: &str) -> Value {
        let mut jobs = self.lease(queue, 1).await;
        assert_eq!(jobs.len(), 1, "one job should be ready in {queue}");
        jobs.remove(0)
    }

    /// Settles or extends a delivery with its token.
    pub(crate) async fn settle(&self, verb: &str, delivery: &Value, mut body: Value) -> Answer {
        body["lease"] = delivery["lease"].clone();
        self.settle_without_token(verb, delivery, body).await
    }

    /// Settles or extends whatever delivery of its job is out, as a caller written for SimpleQ does.
    pub(crate) async fn settle_without_token(&self, verb: &str, delivery: &Value, body: Value) -> Answer {
        self.client.post(&format!("/v1/jobs/{}/{verb}", delivery["id"].as_str().unwrap()), body).await
    }

    /// Waits until the job is in this state. What brings it about must be under way already.
    pub(crate) async fn until(&self, id: &str, status: &str) -> Value {
        self.until_job(id, |job| job["status"] == status).await
    }

    /// Waits until the job is as it should be.
    pub(crate) async fn until_job(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.until_at(&format!("/v1/jobs/{id}"), is).await
    }

    /// Waits until the queue is as it should be.
    pub(crate) async fn until_queue(&self, queue: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.until_at(&format!("/v1/queues/{queue}"), is).await
    }

    async fn until_at(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let seen = self.client.get(path).await.expect(200);
                if is(&seen) {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(look).await
    }

    /// Waits until somebody waits for a job of this queue: a long poll that has begun, or a dispatcher.
    pub(crate) async fn until_somebody_waits(&self, queue: &str) {
        let bell = self.running.service().news.bells.of(&queue.try_into().unwrap());
        // The map's, this one, and that of whoever waits.
        let look = async {
            while Arc::strong_count(&bell) < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(look).await;
    }
}

/// Looks until there is something to see. What brings it about must be under way already, as with [`World::until`].
pub(crate) async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A caller that may reach loopback, where the workers of scenarios are.
pub(crate) fn caller() -> Caller {
    Caller::new(CallerOptions {
        guard: Guard::open_to_loopback(),
        resolver: Arc::new(SystemResolver),
        dial: Arc::new(TcpDial),
        extra_ca: None,
        idle_per_host: 16,
    })
    .unwrap()
}

/// Puts an admin's key into a store, as the command line does before the server starts.
async fn bootstrap(store: &dyn Store) -> String {
    let secret = credentials::mint();
    let record = ApiKeyRecord {
        id: "bootstrap".to_owned(),
        hash: credentials::hash(secret.expose()),
        label: "boss".to_owned(),
        scopes: vec![Scope::Admin],
        queues: vec!["*".to_owned()],
        created_at: START,
        expires_at: None,
        last_used_at: None,
    };
    let answers = store.apply(vec![Command::PutApiKey(Box::new(record))]).await.unwrap();
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    secret.expose().to_owned()
}
