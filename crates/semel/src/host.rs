//! Running a server from its start to its end: what `dev` and `serve` have in common.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use semel_core::records::{ApiKeyRecord, Scope};
use semel_server::config::Config;
use semel_server::credentials::{self, Secret};
use semel_server::delivery::guard::Guard;
use semel_server::journal::Journal;
use semel_server::net::{self, Server};
use semel_server::service::{AuthMode, Options, Running};
use semel_server::stop::Stop;
use semel_store::{Command, Shared, Store, StoreError};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::failure::Failure;

/// A server that is to be run.
pub(crate) struct Host {
    /// How.
    pub(crate) config: Config,
    /// On what.
    pub(crate) place: Place,
    /// Which webhooks may be called.
    pub(crate) guard: Guard,
    /// Whether unknown queues are made.
    pub(crate) dev: bool,
    /// Where a person reads along.
    pub(crate) journal: Option<Journal>,
}

/// Where jobs are kept.
pub(crate) struct Place {
    /// What people call it, without a password.
    pub(crate) name: String,
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// What comes with a store that other nodes use, too.
    pub(crate) shared: Option<Arc<dyn Shared>>,
}

impl Place {
    /// A store of this process alone, in a directory or in memory.
    pub(crate) fn embedded(dir: &Path, store: Arc<dyn Store>) -> Self {
        Self { name: dir.display().to_string(), store, shared: None }
    }
}

/// What tells people that the server can be reached.
pub(crate) type Ready = Box<dyn FnOnce(SocketAddr) -> Result<(), Failure>>;

/// The runtime of a server: a worker for every core but one, which is left to the store's own thread, or to whatever there is
/// beside the server. On two cores a second worker took a tenth more processor time per publish than one, on a directory and on
/// PostgreSQL, and was no faster. Large batches and leases step aside for other requests (`api/aside.rs` of the server).
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let workers = thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1));
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().build().map_err(Failure::io("start a runtime"))
}

/// Looks whether a server can start as it is told to, before a store is opened for it, or made: a mistake changes nothing.
pub(crate) fn preflight(config: &Config) -> Result<(), Failure> {
    config.load_tls().map_err(|e| Failure::Usage(e.to_string()))?;
    if config.delivery.extra_ca.is_some() {
        config.caller(config.guard()).map_err(|e| Failure::Usage(e.to_string()))?;
    }
    std::net::TcpListener::bind(config.listen).map_err(cannot_listen(config.listen))?;
    if config.store.url.is_none() && !config.data.exists() {
        // There is no other key where there is no store.
        config.check_exposure(config.bootstrap_key.is_some())?;
    }
    Ok(())
}

fn cannot_listen(address: SocketAddr) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let next = match error.kind() {
            io::ErrorKind::AddrInUse => "is another server running there? --listen takes another address",
            io::ErrorKind::PermissionDenied => "ports below 1024 are for root; --listen takes another",
            _ => "--listen takes another address",
        };
        Failure::Usage(format!("cannot listen on {address}: {error}; {next}"))
    }
}

impl Host {
    /// Runs until it is time to stop, and ends in order.
    pub(crate) async fn run(self, ready: Ready, stop: Stop) -> Result<(), Failure> {
        let ended = self.serve(ready, stop).await;
        // Closing twice is fine, and after a start that failed it is needed.
        let closed = self.place.store.close().await.map_err(self.about_store());
        ended.and(closed)
    }

    async fn serve(&self, ready: Ready, stop: Stop) -> Result<(), Failure> {
        let options = self.options().await?;
        let tls = self.config.load_tls().map_err(|e| Failure::Usage(e.to_string()))?;
        let caller = self.config.caller(self.guard.clone()).map_err(|e| Failure::Usage(e.to_string()))?;
        let listen = self.config.listen;
        let listener = TcpListener::bind(listen).await.map_err(cannot_listen(listen))?;
        let address = listener.local_addr().map_err(Failure::io("ask for our address"))?;
        let Place { store, shared, .. } = &self.place;
        let running = Running::start(store.clone(), shared.clone(), caller, None, options);
        let running = running.await.map_err(self.about_store())?;
        let service = running.service().clone();
        let server = Server {
            app: self.config.expose(running.router()),
            limits: self.config.net_limits(),
            tls,
            shed: Arc::new(move || service.overloaded()),
        };
        let serving = tokio::spawn(net::serve(listener, server, running.service().stop.clone()));
        ready(address)?;
        stop.stopped().await;
        self.end(running, serving).await
    }

    /// Long polls are answered, running requests finish, deliveries finish or are put back, and what was accepted is
    /// stored, in this order and within the grace.
    async fn end(
        &self,
        running: Running,
        serving: tokio::task::JoinHandle<net::Drained>,
    ) -> Result<(), Failure> {
        let by = Instant::now() + self.config.shutdown.grace;
        running.begin_stop();
        match serving.await {
            Ok(drained) if drained.cut == 0 => {}
            Ok(drained) => tracing::warn!(connections = drained.cut, "requests did not finish in time"),
            Err(error) => tracing::error!(%error, "the accept loop broke"),
        }
        let grace = by.saturating_duration_since(Instant::now());
        running.stop(grace).await.map_err(self.about_store())?;
        tracing::info!("stopped");
        Ok(())
    }

    /// Makes the admin key known, and decides who may come in.
    async fn options(&self) -> Result<Options, Failure> {
        if let Some(key) = &self.config.bootstrap_key {
            self.admit(key).await?;
        }
        let any_key = !self.place.store.api_keys().await.map_err(self.about_store())?.is_empty();
        self.config.check_exposure(any_key)?;
        let auth = if any_key { AuthMode::Keys } else { AuthMode::Open };
        if auth == AuthMode::Open {
            tracing::warn!(listen = %self.config.listen, "no API key exists: whoever reaches this address may do anything");
        }
        let telemetry = self.config.export().map_err(|e| Failure::Usage(e.to_string()))?;
        let (dev, journal) = (self.dev, self.journal.clone());
        Ok(Options { dev, journal, telemetry, ..self.config.service_options(auth) })
    }

    /// Stores the key that exists before any other. It has one name, so that a new one replaces the old.
    async fn admit(&self, key: &Secret) -> Result<(), Failure> {
        let record = ApiKeyRecord {
            id: "bootstrap".into(),
            hash: credentials::hash(key.expose()),
            // Timelines say "by" and this.
            label: if self.dev { "the key of this run" } else { "SEMEL_ADMIN_KEY" }.into(),
            scopes: vec![Scope::Admin],
            queues: vec!["*".into()],
            created_at: self.place.store.now(),
            expires_at: None,
            last_used_at: None,
        };
        let answers = self.place.store.apply(vec![Command::PutApiKey(Box::new(record))]).await;
        for answer in answers.map_err(self.about_store())? {
            answer?;
        }
        Ok(())
    }

    fn about_store(&self) -> impl FnOnce(StoreError) -> Failure + use<> {
        Failure::database(self.place.name.clone())
    }
}
