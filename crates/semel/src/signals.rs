//! SIGTERM and SIGINT: the first asks the server to end in order, the second ends it at once.

use std::io;
use std::process;
use std::thread;

use semel_server::stop::{self, Stop, Stopper};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What a shell adds to the number of the signal that ended a process.
const SIGNALLED: i32 = 128;

/// Listens for signals from now on; the result says when to stop.
///
/// They have a thread of their own: a server that hangs, or is still opening a large store, must not be deaf to them.
pub(crate) fn listen() -> Result<Stop, Failure> {
    let cannot = |e| Failure::io("listen for signals")(e);
    let runtime = Builder::new_current_thread().enable_io().build().map_err(cannot)?;
    let mut signals = runtime.block_on(async { Signals::new() }).map_err(cannot)?;
    let (stopper, stop) = stop::pair();
    let obey = move || runtime.block_on(signals.obey(&stopper));
    thread::Builder::new().name("signals".into()).spawn(obey).map_err(cannot)?;
    Ok(stop)
}

struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn obey(&mut self, stopper: &Stopper) {
        let (_, name) = self.next().await;
        tracing::info!(signal = name, "stopping; a second signal ends the process at once");
        stopper.stop();
        let (number, name) = self.next().await;
        tracing::warn!(signal = name, "ended at once; what was under way will be delivered again");
        process::exit(SIGNALLED + number);
    }

    async fn next(&mut self) -> (i32, &'static str) {
        tokio::select! {
            _ = self.term.recv() => (SignalKind::terminate().as_raw_value(), "SIGTERM"),
            _ = self.int.recv() => (SignalKind::interrupt().as_raw_value(), "SIGINT"),
        }
    }
}
