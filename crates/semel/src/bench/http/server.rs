//! The server that is measured: a process of its own, so that its time and memory are its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use semel_server::config::Config;
use semel_server::credentials::{self, Secret};
use semel_server::delivery::guard::Guard;
use semel_store_embedded::Options;
use serde::{Deserialize, Serialize};

use super::super::procfs;
use super::client::Conn;
use super::no_store::NoStore;
use crate::failure::Failure;
use crate::host::{self, Host, Place};
use crate::kin::{self, Kin};
use crate::{opening, signals};

/// What a server says when it can be reached.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    address: SocketAddr,
    secret: String,
}

/// A server under measurement.
#[derive(Debug)]
pub(in crate::bench) struct Server {
    kin: Kin,
    pub(in crate::bench) address: SocketAddr,
    pub(in crate::bench) secret: String,
}

impl Server {
    /// A server on an embedded store in `dir`.
    pub(in crate::bench) fn durable(dir: &Path) -> Result<Self, Failure> {
        Self::spawn("embedded", dir)
    }

    /// The same server with a store that answers at once.
    pub(super) fn limit() -> Result<Self, Failure> {
        Self::spawn("none", Path::new("."))
    }

    /// The first node on a PostgreSQL database.
    pub(super) fn shared(url: &str) -> Result<Self, Failure> {
        Self::spawn("postgres", Path::new(url))
    }

    /// Another node on the same database, with the same key.
    pub(super) fn beside(&self, url: &str) -> Result<Self, Failure> {
        Self::spawn_with(&["bench-serve", "--key", &self.secret, "postgres"], Path::new(url))
    }

    fn spawn(store: &str, dir: &Path) -> Result<Self, Failure> {
        Self::spawn_with(&["bench-serve", store], dir)
    }

    fn spawn_with(args: &[&str], dir: &Path) -> Result<Self, Failure> {
        let mut kin = Kin::spawn(args, dir)?;
        let ready: Option<Ready> = kin.next_line()?;
        let ready = ready.ok_or_else(|| Failure::Broken("the server did not start".into()))?;
        Ok(Self { kin, address: ready.address, secret: ready.secret })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.kin.pid()
    }

    /// Processor time so far.
    pub(super) fn cpu(&self) -> Duration {
        procfs::cpu_of(self.pid()).unwrap_or_default()
    }

    /// Resident memory in bytes.
    pub(super) fn memory(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "memory is below 2^52 bytes")]
        procfs::memory_of(self.pid()).map_or(f64::NAN, |memory| memory.resident as f64)
    }

    /// Commits so far, each of which ends with one flush of the log.
    pub(super) async fn commits(&self) -> Result<f64, Failure> {
        let mut conn = Conn::open(self.address, &self.secret).await?;
        let text = conn.get("/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix("semel_commit_duration_seconds_count "));
        let number = line.and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| Failure::Broken("/metrics does not count commits".into()))
    }
}

/// Plays the server until the benchmark kills it. `dir` is the directory of the store, or the URL of its database.
pub(crate) fn be_server(store: &str, dir: &Path, key: Option<String>) -> Result<(), Failure> {
    let stop = signals::listen()?;
    let secret = key.map_or_else(credentials::mint, Secret::new);
    let mut config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data: PathBuf::from(dir),
        bootstrap_key: Some(Secret::clone(&secret)),
        ..Config::default()
    };
    let said = secret.expose().to_owned();
    let ready = move |address| kin::say(&Ready { address, secret: said });
    let runtime = host::runtime()?;
    let place = match store {
        "none" => Place::embedded(dir, Arc::new(NoStore::new())),
        "postgres" => {
            let url = Secret::new(dir.to_string_lossy());
            config.store.url = Some(url.clone());
            runtime.block_on(opening::database(&url, &config))?
        }
        _ => Place::embedded(dir, Arc::new(opening::store(dir, Options::default())?)),
    };
    let host = Host { config, place, guard: Guard::open_to_loopback(), dev: true, journal: None };
    runtime.block_on(host.run(Box::new(ready), stop))
}
