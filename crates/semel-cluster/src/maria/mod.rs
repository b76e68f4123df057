//! MariaDB, which speaks MySQL's protocol.

mod server;
mod shared;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rustix::process::Signal;

pub use shared::{MariaDatabase, SharedMaria};

use crate::{
    Error, account, daemon::Daemon, home::Home, password, ports, server::Settings, server::settings,
};

/// The user of the URLs. It may do everything to databases and nothing to the server, as an application's should: those
/// who may do more are not stopped by `read_only`.
const USER: &str = "semel";

/// A MariaDB of one test's own, with the settings of production, reachable by TCP and through its socket. It ends with
/// this guard, and by itself if the process is killed. If the test panics, the end of the server's log is printed.
#[derive(Debug)]
pub struct Maria {
    daemon: Daemon,
    port: u16,
    password: String,
    settings: Settings,
}

impl Maria {
    /// A new server with one empty database, `test`. It takes about a second.
    pub fn start() -> Result<Self, Error> {
        Self::with(&[])
    }

    /// The same, with options of the server that differ: `("innodb-file-per-table", "0")`.
    pub fn with(changed: &[(&str, &str)]) -> Result<Self, Error> {
        let (home, port) = (Home::in_memory(account::MYSQL)?, ports::unused()?);
        let mut settings = settings(&[("bind-address", "127.0.0.1"), ("port", &port.to_string())]);
        settings.extend(crate::server::settings(changed));
        let daemon = Daemon::at(home, server::PROGRAM)?;
        let mut maria = Self { daemon, port, password: password::random()?, settings };
        server::initialise(&maria.daemon.home)?;
        maria.restart()?;
        maria.sql(&maria.user())?;
        Ok(maria)
    }

    /// Adds an option that holds from the next start on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Where to connect to by TCP.
    pub fn url(&self, database: &str) -> String {
        self.url_through(self.address(), database)
    }

    /// The same through something that stands in front of the server, such as a [`crate::Proxy`].
    pub fn url_through(&self, address: SocketAddr, database: &str) -> String {
        format!("mysql://{USER}:{}@{address}/{database}", self.password)
    }

    /// Where it listens, before and after every restart.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.port)
    }

    /// The directory that holds data, socket and log.
    pub fn directory(&self) -> &Path {
        self.daemon.home.path()
    }

    /// The server's data directory.
    pub fn data(&self) -> PathBuf {
        self.daemon.home.data()
    }

    /// Runs SQL as root through the socket; rows come back a line each, columns separated by tabs.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        server::sql(&self.daemon.home, sql)
    }

    /// Stops the server in an orderly way. Nothing, if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.daemon.stop()
    }

    /// Kills the server. Nothing, if it is stopped.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.kill()
    }

    /// Starts the server again, on the same port and data, and waits until it answers. A server that runs is stopped
    /// first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        let command = server::command(&self.daemon.home, &self.settings)?;
        let socket = server::socket(&self.daemon.home);
        self.daemon.start(command, || server::greets(&socket))
    }

    /// Stops the server in its tracks, connections left open, until [`Self::thaw`].
    pub fn freeze(&self) -> Result<(), Error> {
        self.daemon.signal(Signal::STOP)
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<(), Error> {
        self.daemon.signal(Signal::CONT)
    }

    fn user(&self) -> String {
        let password = &self.password;
        format!(
            "CREATE DATABASE test;
             CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}';
             GRANT ALL ON `%`.* TO {USER}@'127.0.0.1'"
        )
    }
}
