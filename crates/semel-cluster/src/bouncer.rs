//! PgBouncer in front of a cluster, as many production systems have it.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
};

use crate::{
    Cluster, Error, account,
    daemon::Daemon,
    home::Home,
    ports,
    programs::program,
    url::{self, USER},
};

/// A PgBouncer that pools by transaction. It ends with this guard, and by itself if the process is killed.
///
/// It has few server connections, so that two transactions of one client really meet different ones, and it accepts
/// only the start parameters that PgBouncer accepts when nobody has configured it.
#[derive(Debug)]
pub struct Bouncer {
    port: u16,
    password: String,
    _daemon: Daemon,
}

impl Bouncer {
    /// A pooler in front of a cluster.
    pub fn start(cluster: &Cluster) -> Result<Self, Error> {
        Self::through(cluster, cluster.address())
    }

    /// The same, with the server's connections led through something like a [`crate::Proxy`].
    pub fn through(cluster: &Cluster, address: SocketAddr) -> Result<Self, Error> {
        let mut daemon = Daemon::at(Home::on_disk(account::POSTGRES)?, "pgbouncer")?;
        let (port, password) = (ports::unused()?, cluster.password.clone());
        let users = daemon.home.write("users", &format!("\"{USER}\" \"{password}\"\n"))?;
        let text = configuration(port, address, &password, &users);
        let mut command = daemon.home.account.command(&program("pgbouncer")?);
        command.arg(daemon.home.write("bouncer.ini", &text)?);
        daemon.start(command, || TcpStream::connect(ports::on_loopback(port)).is_ok())?;
        Ok(Self { port, password, _daemon: daemon })
    }

    /// Where to connect to.
    pub fn url(&self, database: &str) -> String {
        url::by_address(self.address(), &self.password, database)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.port)
    }
}

fn configuration(port: u16, server: SocketAddr, password: &str, users: &Path) -> String {
    let (server_host, server_port, users) = (server.ip(), server.port(), users.display());
    format!(
        "[databases]
* = host={server_host} port={server_port} user={USER} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
# A server that was away is tried again soon; the default waits for fifteen seconds.
server_login_retry = 1
"
    )
}
