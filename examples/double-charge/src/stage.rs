//! The Semel server of the demonstration: in this process, on a real socket, with jobs in memory, like `semel dev`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use semel_client::http::Client;
use semel_server::config::Config;
use semel_server::delivery::guard::Guard;
use semel_server::net::{self, Drained, Server};
use semel_server::service::{AuthMode, Options, Running};
use semel_store::{MemoryStore, SystemClock};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::failure::Failure;

pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) client: Client,
    /// Whether the provider forgets keys that it should know.
    pub(crate) forgetful: bool,
    scratch: TempDir,
    running: Running,
    sockets: JoinHandle<Drained>,
}

impl Stage {
    pub(crate) async fn open(forgetful: bool) -> Result<Self, Failure> {
        let scratch = TempDir::with_prefix("double-charge-").map_err(Failure::io("make a directory"))?;
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        let config = Config::default();
        // Nothing is pushed here, so nothing may be called.
        let caller = config.caller(Guard::default()).map_err(|error| Failure::Broken(error.to_string()))?;
        // In dev mode a publish makes the queue it needs.
        let options = Options { dev: true, ..config.service_options(AuthMode::Open) };
        let running = Running::start(store, None, caller, None, options).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Failure::io("listen"))?;
        let address = listener.local_addr().map_err(Failure::io("ask for an address"))?;
        let server = Server::new(running.router());
        let sockets = tokio::spawn(net::serve(listener, server, running.service().stop.clone()));
        let url = format!("http://{address}");
        let client = Client::new(url.as_str())?;
        Ok(Self { url, client, forgetful, scratch, running, sockets })
    }

    /// A file of this run, gone at its end.
    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        self.running.begin_stop();
        let ended = |error| Failure::Broken(format!("the server's accept loop broke: {error}"));
        self.sockets.await.map_err(ended)?;
        Ok(self.running.stop(Duration::from_secs(5)).await?)
    }
}
