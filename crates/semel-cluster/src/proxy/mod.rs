//! A network that misbehaves on command: a TCP proxy in this process.
//!
//! Bytes that are held back are not lost: like those of a real partition they arrive once it heals, unless the
//! connection was given up meanwhile. What differs from a real network: a connection through a held proxy is still
//! accepted, and then silent.

mod pump;
mod rules;
mod trap;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

pub use trap::{Seen, Side, Trap};

use crate::{Error, ports};
use pump::Connection;
use rules::Network;

/// A target that does not answer within this time is down; on the loopback that is known at once.
const CONNECT: Duration = Duration::from_secs(5);

/// Stands before a server and does to its connections what it is told. It ends, and cuts them, when dropped.
#[derive(Debug)]
pub struct Proxy {
    network: Arc<Network>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy that passes everything on to this address, until it is told otherwise.
    pub fn to(target: SocketAddr) -> Result<Self, Error> {
        Self::on(Ipv4Addr::LOCALHOST.into(), target)
    }

    /// The same on another address of this machine, such as its end of a [`crate::Namespace`]'s cable.
    pub fn on(ip: IpAddr, target: SocketAddr) -> Result<Self, Error> {
        let address = SocketAddr::new(ip, ports::unused()?);
        let listener = TcpListener::bind(address).map_err(Error::io(format!("listen on {address}")))?;
        let network = Arc::new(Network::default());
        network.listen(listener);
        let shared = Arc::clone(&network);
        let accepting = Some(thread::spawn(move || accept(&shared, address, target)));
        Ok(Self { network, address, accepting })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything flows again, what was held back first. A trap that was set stays.
    pub fn pass(&self) {
        self.network.change(|rules| {
            rules.delay = Duration::ZERO;
            rules.held = [false; 2];
            rules.refuse = false;
        });
        self.network.wait(CONNECT, |rules| rules.listener.is_some());
    }

    /// Every byte takes this much longer, in either direction.
    pub fn delay(&self, by: Duration) {
        self.network.change(|rules| rules.delay = by);
    }

    /// What this side sends does not arrive: a partition in one direction.
    pub fn hold(&self, from: Side) {
        self.network.change(|rules| rules.held[from.index()] = true);
    }

    /// Nothing arrives anywhere.
    pub fn blackhole(&self) {
        self.network.change(|rules| rules.held = [true; 2]);
    }

    /// New connections are refused. Those that exist stay.
    pub fn refuse(&self) {
        self.network.change(|rules| rules.refuse = true);
        self.network.stop_listening();
    }

    /// Closes every connection now; says how many there were. What was on its way is lost.
    pub fn cut(&self) -> usize {
        self.network.cut()
    }

    /// Cuts the next connection that walks into the trap. One trap at a time; it springs once.
    pub fn cut_when(&self, trap: Trap) {
        self.network.change(|rules| {
            rules.trap = Some(trap);
            rules.sprung = false;
        });
    }

    /// Waits until the trap that was set last has sprung; `false` if it did not in time.
    pub fn wait_until_sprung(&self, limit: Duration) -> bool {
        self.network.wait(limit, |rules| rules.sprung)
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.network.count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.change(|rules| rules.ended = true);
        self.network.stop_listening();
        self.cut();
        if let Some(accepting) = self.accepting.take()
            && accepting.join().is_err()
        {
            eprintln!("semel-cluster: the proxy at {} panicked", self.address);
        }
    }
}

/// Accepts until the proxy ends. To refuse, the listener is closed: then the system answers for us.
fn accept(network: &Arc<Network>, address: SocketAddr, target: SocketAddr) {
    loop {
        if let Some(listener) = network.listener() {
            serve(network, &listener, target);
        }
        if !network.wait_to_listen() {
            return;
        }
        match TcpListener::bind(address) {
            Ok(listener) => network.listen(listener),
            Err(error) => {
                return eprintln!("semel-cluster: a proxy cannot listen on {address} again: {error}");
            }
        }
    }
}

/// Accepts until the listener is taken away.
fn serve(network: &Arc<Network>, listener: &TcpListener, target: SocketAddr) {
    for client in listener.incoming() {
        if network.listener().is_none() {
            return;
        }
        // A client whose server cannot be reached sees its connection close.
        let joined = client.and_then(|client| join(network, client, target));
        if let Err(error) = joined {
            eprintln!("semel-cluster: a connection to {target} failed: {error}");
        }
    }
}

fn join(network: &Arc<Network>, client: TcpStream, target: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&target, CONNECT)?;
    // Each chunk is sent as it came: waiting for more would be a delay that nobody asked for.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Connection::open(network, client, server);
    Ok(())
}
