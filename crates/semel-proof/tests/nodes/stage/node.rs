//! One node: how it is started, and the process while it runs.

use std::process::Command;

use rustix::process::Signal;

use crate::kit::process::{Launch, Server};

/// A node with a server, its connections to the database, and clients that stay connected needs fewer descriptors than
/// this (I10).
const DESCRIPTORS_MAX: usize = 150;

pub(crate) struct Node {
    pub(crate) launch: Launch,
    server: Option<Server>,
    /// What its processes that are gone have logged.
    log: String,
}

impl Node {
    pub(super) fn new(launch: Launch, number: usize, key: &str) -> Self {
        let launch = launch.set(&format!("node.name=node-{number}")).with_variable("SEMEL_ADMIN_KEY", key);
        Self { launch, server: None, log: String::new() }
    }

    /// Starts the process, and waits until it answers.
    pub(crate) fn start(&mut self) {
        self.begin();
        self.wait_until_ready();
    }

    /// Starts the process.
    pub(crate) fn begin(&mut self) {
        self.begin_as(self.launch.command());
    }

    /// Starts a command that becomes this node.
    pub(crate) fn begin_as(&mut self, command: Command) {
        self.server = Some(Server::spawn(command, self.launch.address));
    }

    pub(crate) fn wait_until_ready(&mut self) {
        self.server_mut().wait_until_it_answers();
    }

    pub(crate) fn server_mut(&mut self) -> &mut Server {
        self.server.as_mut().expect("the node runs")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.as_ref().expect("the node runs").signal(signal);
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        let ended = self.server.take().expect("the node runs").kill();
        self.log.push_str(&ended.log);
    }

    /// Asks the process to end, which it does in order, having told no secret to its log.
    pub(super) fn end_well(&mut self, secrets: &[&str]) {
        let server = self.server.take().expect("the node runs");
        let descriptors = server.descriptors();
        assert!(descriptors < DESCRIPTORS_MAX, "{descriptors} descriptors are open");
        let ended = server.stop();
        self.log.push_str(&ended.log);
        assert_eq!(ended.status.code(), Some(0), "{}", self.log);
        for secret in secrets {
            assert!(!self.log.contains(secret), "a secret was logged: {}", self.log);
        }
    }

    /// What it has logged so far, in all its processes.
    pub(crate) fn read_log(&mut self) -> String {
        let now = self.server.as_mut().map(|server| server.read_log().to_owned()).unwrap_or_default();
        format!("{}{now}", self.log)
    }
}
