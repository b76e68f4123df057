//! `semel dev`: a server to try things on.

mod welcome;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use semel_server::config::{Config, LogConfig, LogFormat};
use semel_server::credentials;
use semel_server::delivery::guard::Guard;
use semel_server::journal::{self, Journal};
use semel_store::{MemoryStore, Store, SystemClock};
use semel_store_embedded::Options;

use self::welcome::Welcome;
use crate::failure::Failure;
use crate::host::{self, Host, Place};
use crate::screen::Screen;
use crate::{logs, opening, signals};

/// What was asked for on the command line.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// Where to keep jobs; in memory if absent.
    pub(crate) data: Option<PathBuf>,
    /// Whether requests and deliveries are not shown.
    pub(crate) quiet: bool,
}

/// Serves until a signal ends it, on memory or in a directory.
pub(crate) fn run(wish: Wish) -> Result<(), Failure> {
    let Wish { listen, data, quiet } = wish;
    let key = credentials::mint();
    let config = Config { listen, bootstrap_key: Some(key.clone()), ..Config::default() };
    // Somebody is watching, whether through a pipe or not.
    if quiet {
        logs::start(LogConfig { format: LogFormat::Text, ..config.log });
    } else {
        logs::start_beside_journal();
    }
    host::preflight(&config)?;
    let stop = signals::listen()?;
    let store: Arc<dyn Store> = match &data {
        Some(dir) => Arc::new(opening::store(dir, Options::default())?),
        None => Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))),
    };
    let place = Place::embedded(data.as_deref().unwrap_or("memory".as_ref()), store);
    let ready = move |address: SocketAddr| {
        let text = Welcome { address, data: data.as_deref(), key: &key, quiet }.text();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::io("print"))
    };
    let journal = if quiet { None } else { Some(read_along()?) };
    // Webhooks of a developer are on the developer's machine.
    let host = Host { guard: Guard::open_to_loopback(), config, place, dev: true, journal };
    host::runtime()?.block_on(host.run(Box::new(ready), stop))
}

/// Shows what happens, on a thread of its own: the server does not wait for a terminal.
fn read_along() -> Result<Journal, Failure> {
    let (journal, reader) = journal::open();
    let show = move || {
        let screen = Screen::on(&io::stderr());
        while let Some((missed, line)) = reader.next() {
            let gap = match missed {
                0 => String::new(),
                _ => format!("          {missed} lines are not shown: there were too many at once\n"),
            };
            // When stderr is gone there is nobody to show it to.
            if writeln!(io::stderr().lock(), "{gap}{}", screen.line(&line)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("journal".into()).spawn(show).map_err(Failure::io("start a thread"))?;
    Ok(journal)
}
