//! A worker in a process of its own, which is really killed: a part of this program runs in it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use semel_ledger::handler::Disposition;

const ARGUMENTS: &str = "OTHER_QUEUES_WORKER";
const DONE: &str = "the effect has happened, and the queue does not know";

/// Runs the ignored test of this name in another process until its handler is done, and kills it before it can tell its
/// queue.
pub(crate) fn killed_before_the_ack(test: &str, arguments: &[&str]) {
    let mut worker: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(ARGUMENTS, arguments.join(" "))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(worker.stdout.take().unwrap());
    let done = output.lines().map_while(Result::ok).any(|line| line.contains(DONE));
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(done, "the worker ended before its effect had happened");
}

/// In the worker: what it was given. `None` if somebody runs ignored tests for no reason.
pub(crate) fn arguments() -> Option<Vec<String>> {
    Some(std::env::var(ARGUMENTS).ok()?.split(' ').map(str::to_owned).collect())
}

/// In the worker, after the handler: says so, and waits to be killed.
pub(crate) async fn wait_to_be_killed(disposition: Disposition) -> Disposition {
    println!("\n{DONE}: {disposition:?}");
    std::future::pending().await
}
