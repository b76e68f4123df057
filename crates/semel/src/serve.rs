//! `semel serve`: the server on an embedded store, or on a database that many nodes share.

use std::net::SocketAddr;
use std::sync::Arc;

use semel_server::config::Config;
use semel_store_embedded::Options;

use crate::failure::Failure;
use crate::host::{self, Host, Place};
use crate::{logs, opening, signals};

/// Serves until a signal ends it.
pub(crate) fn run(config: Config) -> Result<(), Failure> {
    logs::start(config.log);
    host::preflight(&config)?;
    let stop = signals::listen()?;
    let runtime = host::runtime()?;
    let place = match &config.store.url {
        Some(url) => runtime.block_on(opening::database(url, &config))?,
        None => Place::embedded(&config.data, Arc::new(opening::store(&config.data, Options::default())?)),
    };
    let tls = config.tls.cert.is_some();
    let store = place.name.clone();
    let ready = move |address: SocketAddr| {
        tracing::info!(%address, tls, store, version = env!("CARGO_PKG_VERSION"), "listening");
        Ok(())
    };
    let host = Host { guard: config.guard(), config, place, dev: false, journal: None };
    runtime.block_on(host.run(Box::new(ready), stop))
}
