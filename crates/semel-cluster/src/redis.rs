//! Redis.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    Error, account,
    daemon::Daemon,
    home::Home,
    password, ports,
    programs::program,
    server::{Settings, settings},
    sql::succeeded,
};

const PROGRAM: &str = "redis-server";

/// A Redis of one test's own, reachable by TCP and through its socket. It starts within a few hundredths of a second,
/// so nobody need share one. It ends with this guard, and by itself if the process is killed.
#[derive(Debug)]
pub struct Redis {
    daemon: Daemon,
    port: u16,
    password: String,
    settings: Settings,
}

impl Redis {
    /// A new server that forgets everything when it ends: see [`Self::with`].
    pub fn start() -> Result<Self, Error> {
        Self::with(&[])
    }

    /// The same, with directives of `redis.conf` that differ: `("appendonly", "yes")`, `("maxmemory", "2mb")`.
    pub fn with(changed: &[(&str, &str)]) -> Result<Self, Error> {
        let daemon = Daemon::at(Home::in_memory(account::REDIS)?, PROGRAM)?;
        let settings = settings(changed);
        let mut redis = Self { daemon, port: ports::unused()?, password: password::random()?, settings };
        redis.restart()?;
        Ok(redis)
    }

    /// A server that copies this one, and refuses to be written to.
    pub fn replica(&self) -> Result<Self, Error> {
        let master = format!("127.0.0.1 {}", self.port);
        Self::with(&[("replicaof", &master), ("masterauth", &self.password)])
    }

    /// Adds a directive that holds from the next start on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Where to connect to by TCP.
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// The same through something that stands in front of the server, such as a [`crate::Proxy`].
    pub fn url_through(&self, address: SocketAddr) -> String {
        format!("redis://:{}@{address}/", self.password)
    }

    /// Where to connect to through the socket.
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}?pass={}", self.socket().display(), self.password)
    }

    /// Where it listens, before and after every restart.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.port)
    }

    /// The directory that holds data, socket and log.
    pub fn directory(&self) -> &Path {
        self.daemon.home.path()
    }

    /// Runs one command: `&["CONFIG", "SET", "maxmemory", "2mb"]`. An answer that is an error is an error.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(program("redis-cli")?);
        command.env("REDISCLI_AUTH", &self.password).arg("-s").arg(self.socket()).arg("-e").args(words);
        let output = command.stdin(Stdio::null()).output().map_err(Error::io("run redis-cli"))?;
        succeeded("redis-cli", &output)
    }

    /// Stops the server in an orderly way. Nothing, if it is stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.daemon.stop()
    }

    /// Kills the server. Nothing, if it is stopped.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.kill()
    }

    /// Starts the server again, on the same port and what data it has kept, and waits until it answers. A server that
    /// runs is stopped first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        let home = &self.daemon.home;
        let mut command = home.account.command(&program(PROGRAM)?);
        command.arg(home.write("redis.conf", &self.configuration())?);
        let (address, password) = (self.address(), self.password.clone());
        self.daemon.start(command, || answers(address, &password))
    }

    /// Stops the server in its tracks, connections left open, until [`Self::thaw`].
    pub fn freeze(&self) -> Result<(), Error> {
        self.daemon.signal(Signal::STOP)
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<(), Error> {
        self.daemon.signal(Signal::CONT)
    }

    fn socket(&self) -> PathBuf {
        self.daemon.home.path().join("socket")
    }

    fn configuration(&self) -> String {
        let (directory, socket) = (self.directory().display(), self.socket());
        let (port, password, socket) = (self.port, &self.password, socket.display());
        let changed: String = self.settings.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        // The title stays as it was given, for the watchdog knows the process by the path in it.
        format!(
            "set-proc-title no
bind 127.0.0.1
port {port}
unixsocket {socket}
requirepass {password}
dir {directory}
save \"\"
{changed}"
        )
    }
}

/// Whether the server answers, and not that it is still loading.
fn answers(address: SocketAddr, password: &str) -> bool {
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(format!("AUTH {password}\r\nPING\r\n").as_bytes())?;
        let mut answer = [0; b"+OK\r\n+PONG\r\n".len()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    });
    asked.is_ok_and(|answer| answer.ends_with(b"+PONG\r\n"))
}
