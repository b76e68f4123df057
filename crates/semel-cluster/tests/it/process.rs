//! Tests that need a second process run a part of this program in one.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

const ARGUMENT: &str = "SEMEL_CLUSTER_TEST_ARGUMENT";

/// A process that has said something and goes on until it is told to end, or killed.
pub(crate) struct Second {
    pub(crate) process: Child,
    /// What it said.
    pub(crate) word: String,
    /// Kept open, for a process that cannot say how its test went has failed.
    _output: BufReader<ChildStdout>,
}

impl Second {
    /// Starts the ignored test of this name and waits for its word.
    pub(crate) fn start(test: &str, argument: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ARGUMENT, argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let word = lines.find_map(|line| line.strip_prefix("word: ").map(str::to_owned));
        Self { process, word: word.expect("the second process ended without a word"), _output: output }
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) {
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// In the second process: what it was given. `None` if somebody runs ignored tests for no reason.
pub(crate) fn argument() -> Option<String> {
    std::env::var(ARGUMENT).ok()
}

/// In the second process: says its word, and waits to be told to end.
pub(crate) fn say(word: &str) {
    println!("\nword: {word}");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

/// Waits for something that another process does.
pub(crate) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !look() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn eventually_gone(directory: impl Into<PathBuf>) {
    let directory = directory.into();
    eventually(&format!("removal of {}", directory.display()), || !directory.exists());
}
