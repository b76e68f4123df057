//! A cluster of one test's own, to be stopped, killed and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Child,
};

use rustix::process::Signal;

use crate::{
    Error, account,
    home::Home,
    password,
    patience::{PATIENCE, until},
    ports, processes,
    server::{self, Settings, settings},
    sql, url,
    watchdog::Held,
};

/// A PostgreSQL cluster with the settings of production (`fsync` is on), reachable by TCP and through its socket. It ends
/// with this guard, and by itself if the process is killed. If the test panics, the end of the server's log is printed.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) home: Home,
    port: u16,
    pub(crate) password: String,
    settings: Settings,
    server: Option<Child>,
    watchdog: Option<Held>,
}

impl Cluster {
    /// A new cluster with one database, `postgres`. It takes some two seconds.
    pub fn start() -> Result<Self, Error> {
        Self::with(&[])
    }

    /// The same, with settings of `postgresql.conf` that differ.
    pub fn with(changed: &[(&str, &str)]) -> Result<Self, Error> {
        Self::prepared(Home::in_memory(account::POSTGRES)?, password::random()?)?.begun(changed)
    }

    /// The same, with its data on the disk, for whoever measures, or writes more than memory holds.
    pub fn on_disk(changed: &[(&str, &str)]) -> Result<Self, Error> {
        Self::prepared(Home::on_disk(account::POSTGRES)?, password::random()?)?.begun(changed)
    }

    fn begun(mut self, changed: &[(&str, &str)]) -> Result<Self, Error> {
        self.settings.extend(settings(changed));
        server::initialise(&self.home, Some(&self.password))?;
        self.restart()?;
        Ok(self)
    }

    /// Everything but the data.
    pub(crate) fn prepared(home: Home, password: String) -> Result<Self, Error> {
        let watchdog = Some(Held::over(&home)?);
        let settings = settings(&[
            ("listen_addresses", "127.0.0.1"),
            ("max_connections", "200"),
            // A replica that was cut off for a while must still find what it missed.
            ("wal_keep_size", "256MB"),
            ("max_wal_size", "512MB"),
            // Files in the data directory go with it; segments of the system stay behind a killed server.
            ("dynamic_shared_memory_type", "mmap"),
        ]);
        Ok(Self { home, port: ports::unused()?, password, settings, server: None, watchdog })
    }

    /// Adds a setting that holds from the next start on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Where to connect to by TCP, as superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_through(self.address(), database)
    }

    /// The same through something that stands in front of the cluster, such as a [`crate::Proxy`].
    pub fn url_through(&self, address: SocketAddr, database: &str) -> String {
        url::by_address(address, &self.password, database)
    }

    /// Where to connect to through the socket, as superuser.
    pub fn socket_url(&self, database: &str) -> String {
        url::by_socket(self.home.path(), self.port, database)
    }

    /// Where it listens, before and after every restart.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.port)
    }

    /// PostgreSQL's data directory.
    pub fn data(&self) -> PathBuf {
        self.home.data()
    }

    /// The directory that holds data, socket and log.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// The server's processes: the postmaster and all it has forked. None, if it is stopped.
    pub fn processes(&self) -> Result<Vec<u32>, Error> {
        let Some(server) = &self.server else { return Ok(Vec::new()) };
        let mut all = processes::children(server.id())?;
        all.push(server.id());
        Ok(all)
    }

    /// The end of what the server wrote.
    pub fn log(&self) -> String {
        self.home.log_tail()
    }

    /// Runs SQL as superuser through the socket; rows come back a line each, columns separated by `|`.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, Error> {
        sql::run(&self.home, self.port, database, &[sql])
    }

    /// Stops the server in an orderly way: connections are closed, everything is on disk. Nothing, if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        let Some(server) = &mut self.server else { return Ok(()) };
        processes::signal(server.id(), Signal::INT)?;
        let ended = until(PATIENCE, || server.try_wait().map_err(Error::io("wait for postgres")))?;
        match ended {
            Some(_) => self.server = None,
            None => return Err(self.too_late("orderly stop")),
        }
        Ok(())
    }

    /// Kills the postmaster and all its backends at once. Nothing, if it is stopped.
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        processes::kill_family(server.id())?;
        server.wait().map(drop).map_err(Error::io("wait for postgres"))
    }

    /// Starts the server again, on the same port and data, and waits until it answers. A server that runs is stopped
    /// first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.server = Some(server::start(&self.home, self.port, &self.settings)?);
        Ok(())
    }

    /// Stops every process of the server in its tracks, connections left open, until [`Self::thaw`].
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal_all(Signal::STOP)
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<(), Error> {
        self.signal_all(Signal::CONT)
    }

    /// Ends every client's connection; says how many there were.
    pub fn terminate_backends(&self) -> Result<usize, Error> {
        let ended = self.sql(
            "postgres",
            "SELECT pg_terminate_backend(pid)
             FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )?;
        Ok(ended.lines().filter(|line| *line == "t").count())
    }

    fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        let Some(server) = &self.server else { return Ok(()) };
        processes::signal(server.id(), signal)?;
        for child in processes::children(server.id())? {
            processes::signal_if_alive(child, signal)?;
        }
        Ok(())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn too_late(&self, what: &str) -> Error {
        Error::TooLate { what: what.to_owned(), limit: PATIENCE, log: self.log() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the end of PostgreSQL's log, {}\n{}", self.address(), self.log());
        }
        drop(self.watchdog.take());
        if let Some(mut server) = self.server.take()
            && let Err(error) = server.wait()
        {
            eprintln!("semel-cluster: postgres is lost: {error}");
        }
    }
}
