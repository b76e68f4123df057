//! RabbitMQ.

use std::{
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
};

use crate::{Error, account, daemon::Daemon, home::Home, password, ports, programs::program};

const PROGRAM: &str = "rabbitmq-server";
const USER: &str = "semel";

/// A RabbitMQ of one test's own, without plugins. It takes some seconds to start. It ends with this guard, and by itself
/// if the process is killed, and so does the name server that Erlang wants beside it.
#[derive(Debug)]
pub struct RabbitMq {
    daemon: Daemon,
    ports: Ports,
    password: String,
}

/// For clients, for Erlang's name server, and for other nodes, of which there are none.
#[derive(Debug, Clone, Copy)]
struct Ports {
    clients: u16,
    names: u16,
    nodes: u16,
}

impl RabbitMq {
    /// A new broker with one virtual host, `/`.
    pub fn start() -> Result<Self, Error> {
        let ports = Ports { clients: ports::unused()?, names: ports::unused()?, nodes: ports::unused()? };
        let daemon = Daemon::at(Home::in_memory(account::RABBITMQ)?, PROGRAM)?;
        let mut broker = Self { daemon, ports, password: password::random()? };
        broker.daemon.home.write("enabled_plugins", "[].")?;
        broker.daemon.home.write("rabbitmq.conf", &broker.configuration())?;
        broker.start_names()?;
        let (command, address) = (broker.command()?, broker.address());
        broker.daemon.start(command, || TcpStream::connect(address).is_ok())?;
        Ok(broker)
    }

    /// Where to connect to.
    pub fn url(&self) -> String {
        format!("amqp://{USER}:{}@{}/%2f", self.password, self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ports::on_loopback(self.ports.clients)
    }

    /// The directory that holds data and log.
    pub fn directory(&self) -> &Path {
        self.daemon.home.path()
    }

    /// Erlang would start one by itself, on a port that all nodes of the machine share, and leave it behind.
    fn start_names(&mut self) -> Result<(), Error> {
        let home = &self.daemon.home;
        let mut command = home.account.command(&program("epmd")?);
        // The watchdog knows a process by a path of the home, and this one takes none.
        command.arg0(home.path().join("epmd"));
        command.args(["-address", "127.0.0.1", "-port", &self.ports.names.to_string()]);
        let address = ports::on_loopback(self.ports.names);
        self.daemon.accompany("epmd", command, || TcpStream::connect(address).is_ok())
    }

    fn command(&self) -> Result<Command, Error> {
        let home = self.daemon.home.path();
        let mut command = self.daemon.home.account.command(&program(PROGRAM)?);
        command.env("HOME", home).env("RABBITMQ_MNESIA_BASE", home).env("RABBITMQ_LOG_BASE", home);
        command.env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"));
        command.env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("enabled_plugins"));
        command.env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
        command.env("RABBITMQ_PID_FILE", home.join("node"));
        command.env("RABBITMQ_NODENAME", "semel@localhost").env("RABBITMQ_LOGS", "-");
        command.env("RABBITMQ_DIST_PORT", self.ports.nodes.to_string());
        command.env("ERL_EPMD_PORT", self.ports.names.to_string());
        // So that the script becomes the node, instead of standing before it.
        command.env("RABBITMQ_ALLOW_INPUT", "1");
        let arguments = format!(
            "-noinput -start_epmd false -kernel inet_dist_use_interface {{127,0,0,1}} -semel {}/",
            home.display()
        );
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments);
        Ok(command)
    }

    fn configuration(&self) -> String {
        let (port, password) = (self.ports.clients, &self.password);
        format!(
            "listeners.tcp.1 = 127.0.0.1:{port}
default_user = {USER}
default_pass = {password}
log.file = false
log.console = true
"
        )
    }
}
