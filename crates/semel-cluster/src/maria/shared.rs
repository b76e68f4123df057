//! One MariaDB for a whole run of the tests, and a database for each of them.

use std::{path::Path, sync::LazyLock, time::Duration};

use super::server;
use crate::{
    Error, account,
    commons::{Commons, IDLE, Service, usual_place},
    daemon::launch,
    database::unused_name,
    home::Home,
    server::settings,
};

/// A MariaDB that all tests of a run share, whatever process they are in.
///
/// The first that asks starts it, which takes about a second. It ends by itself a minute after its last user, and
/// nothing on it survives that, so it need not be careful with the disk; all else is as in production.
#[derive(Debug)]
pub struct SharedMaria(Commons);

impl SharedMaria {
    /// The server of this run. Started, if nobody has yet.
    pub fn get() -> Result<&'static Self, &'static Error> {
        static SHARED: LazyLock<Result<SharedMaria, Error>> =
            LazyLock::new(|| SharedMaria::at(&usual_place("semel-maria"), IDLE));
        SHARED.as_ref()
    }

    /// A server that everybody shares who names this directory, and that ends after this time without users.
    pub fn at(place: &Path, idle: Duration) -> Result<Self, Error> {
        Commons::at::<Shareable>(place, idle).map(Self)
    }

    /// A new, empty database. It is dropped with the guard.
    pub fn database(&self) -> Result<MariaDatabase<'_>, Error> {
        self.0.touch()?;
        let name = unused_name();
        self.sql(&format!("CREATE DATABASE {name}"))?;
        // The name of a host is demanded by URLs and means nothing beside a socket.
        let socket = server::socket(self.0.home());
        let url = format!("mysql://root@localhost/{name}?socket={}", socket.display());
        Ok(MariaDatabase { shared: self, name, url })
    }

    /// Runs SQL as root; rows come back a line each, columns separated by tabs.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        server::sql(self.0.home(), sql)
    }

    /// The directory that holds the server's data, socket and log.
    pub fn directory(&self) -> &Path {
        self.0.home().path()
    }
}

struct Shareable;

impl Service for Shareable {
    const ACCOUNT: &'static str = account::MYSQL;

    fn answers(home: &Home) -> bool {
        server::greets(&server::socket(home))
    }

    fn start(home: &Home) -> Result<(), Error> {
        server::initialise(home)?;
        let settings = settings(&[
            ("skip-networking", "1"),
            ("max-connections", "400"),
            ("innodb-flush-log-at-trx-commit", "0"),
        ]);
        let socket = server::socket(home);
        // It outlives this process, as the watchdog does.
        let command = server::command(home, &settings)?;
        launch(home, server::PROGRAM, command, |_| server::greets(&socket)).map(drop)
    }
}

/// A database that is dropped with this guard. If the process is killed it goes with the server.
#[derive(Debug)]
pub struct MariaDatabase<'a> {
    shared: &'a SharedMaria,
    name: String,
    url: String,
}

impl MariaDatabase<'_> {
    /// Where to connect to, as root, through the server's socket.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A transaction that somebody left open would hold the database for as long as its connection.
    fn end_connections(&self) -> Result<(), Error> {
        let connections = format!("SELECT id FROM information_schema.processlist WHERE db = '{}'", self.name);
        let ids = self.shared.sql(&connections)?;
        // One that ended by itself meanwhile is an error to KILL, and none to us.
        ids.lines().for_each(|id| drop(self.shared.sql(&format!("KILL {id}"))));
        Ok(())
    }

    /// Runs SQL on it; rows come back a line each, columns separated by tabs.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        self.shared.sql(&format!("USE {}; {sql}", self.name))
    }
}

impl Drop for MariaDatabase<'_> {
    fn drop(&mut self) {
        let dropped = self.end_connections().and_then(|()| self.sql(&format!("DROP DATABASE {}", self.name)));
        let dropped = dropped.and_then(|_| self.shared.0.touch());
        if let Err(error) = dropped {
            eprintln!("semel-cluster: database {} stays until the server goes: {error}", self.name);
        }
    }
}
