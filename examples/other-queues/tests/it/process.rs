//! A worker in a process of its own, which is really killed: a part of this program runs in it.

use semel_cluster::twin::{self, Twin};
use semel_ledger::handler::Disposition;

/// Runs the ignored test of this name in another process until its handler is done, and kills it before it can tell its
/// queue.
pub(crate) fn killed_before_the_ack(test: &str, arguments: &[&str]) {
    let worker = Twin::start(test, &arguments.join(" ")).unwrap();
    let done = worker.word().unwrap();
    assert!(done.starts_with("Ack"), "{done}");
    worker.kill().unwrap();
}

/// In the worker: what it was given. `None` if somebody runs ignored tests for no reason.
pub(crate) fn arguments() -> Option<Vec<String>> {
    Some(twin::orders()?.split(' ').map(str::to_owned).collect())
}

/// In the worker, after the handler, when the effect has happened and the queue does not know: says so, and waits to be
/// killed.
pub(crate) async fn wait_to_be_killed(disposition: Disposition) -> Disposition {
    twin::say(format_args!("{disposition:?}"));
    std::future::pending().await
}
