//! `semel serve`: the server on an embedded store.

use std::net::SocketAddr;
use std::sync::Arc;

use semel_server::config::Config;
use semel_store_embedded::Options;

use crate::failure::Failure;
use crate::host::{self, Host};
use crate::{logs, opening, signals};

/// Serves until a signal ends it.
pub(crate) fn run(config: Config) -> Result<(), Failure> {
    logs::start(config.log);
    let stop = signals::listen()?;
    let store = Arc::new(opening::store(&config.data, Options::default())?);
    let tls = config.tls.cert.is_some();
    let data = config.data.display().to_string();
    let ready = move |address: SocketAddr| {
        tracing::info!(%address, tls, data, version = env!("CARGO_PKG_VERSION"), "listening");
        Ok(())
    };
    let host = Host { guard: config.guard(), config, store, dev: false };
    host::runtime()?.block_on(host.run(Box::new(ready), stop))
}
