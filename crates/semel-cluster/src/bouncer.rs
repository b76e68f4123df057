//! PgBouncer in front of a cluster, as many production systems have it.

use std::{
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    process::{Child, Stdio},
};

use crate::{
    Cluster, Error,
    home::Home,
    patience::{PATIENCE, until},
    ports,
    programs::program,
    url::{self, USER},
    watchdog::Held,
};

/// A PgBouncer that pools by transaction. It ends with this guard, and by itself if the process is killed.
///
/// It has few server connections, so that two transactions of one client really meet different ones, and it accepts
/// only the start parameters that PgBouncer accepts when nobody has configured it.
#[derive(Debug)]
pub struct Bouncer {
    home: Home,
    port: u16,
    password: String,
    process: Option<Child>,
    watchdog: Option<Held>,
}

impl Bouncer {
    /// A pooler in front of a cluster.
    pub fn start(cluster: &Cluster) -> Result<Self, Error> {
        Self::through(cluster, cluster.address())
    }

    /// The same, with the server's connections led through something like a [`crate::Proxy`].
    pub fn through(cluster: &Cluster, address: SocketAddr) -> Result<Self, Error> {
        let home = Home::on_disk()?;
        let watchdog = Some(Held::over(&home)?);
        let (port, password) = (ports::unused()?, cluster.password.clone());
        let mut bouncer = Self { home, port, password, process: None, watchdog };
        bouncer.write("users", &format!("\"{USER}\" \"{}\"\n", bouncer.password))?;
        bouncer.write("bouncer.ini", &bouncer.configuration(address))?;
        let process = bouncer.process.insert(bouncer.spawn()?);
        wait_until_listening(process, port, &bouncer.home)?;
        Ok(bouncer)
    }

    /// Where to connect to.
    pub fn url(&self, database: &str) -> String {
        url::by_address(self.address(), &self.password, database)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.port)
    }

    fn configuration(&self, server: SocketAddr) -> String {
        let (directory, port, password) = (self.home.path().display(), self.port, &self.password);
        let (server_host, server_port) = (server.ip(), server.port());
        format!(
            "[databases]
* = host={server_host} port={server_port} user={USER} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pidfile = {directory}/bouncer.pid
auth_type = plain
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
# A server that was away is tried again soon; the default waits for fifteen seconds.
server_login_retry = 1
"
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).map_err(Error::path("write", &path))?;
        self.home.account.own(&path)
    }

    fn spawn(&self) -> Result<Child, Error> {
        let log = std::fs::File::create(self.home.log()).map_err(Error::path("open", self.home.log()))?;
        let mut command = self.home.account.command(&program("pgbouncer")?);
        command.arg(self.home.path().join("bouncer.ini"));
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().map_err(Error::io("start pgbouncer"))
    }
}

fn wait_until_listening(process: &mut Child, port: u16, home: &Home) -> Result<(), Error> {
    let connected =
        until(PATIENCE, || match process.try_wait().map_err(Error::io("look after pgbouncer"))? {
            Some(_) => Err(Error::Failed { program: "pgbouncer".into(), output: home.log_tail() }),
            None => Ok(TcpStream::connect(ports::on_loopback(port)).ok()),
        })?;
    match connected {
        Some(_) => Ok(()),
        None => {
            Err(Error::TooLate { what: "start of pgbouncer".into(), limit: PATIENCE, log: home.log_tail() })
        }
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the end of PgBouncer's log, {}\n{}", self.address(), self.home.log_tail());
        }
        drop(self.watchdog.take());
        if let Some(mut process) = self.process.take()
            && let Err(error) = process.wait()
        {
            eprintln!("semel-cluster: pgbouncer is lost: {error}");
        }
    }
}
