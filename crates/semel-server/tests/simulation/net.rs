//! The simulated network, as the server's sockets.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use semel_server::delivery::dial::{Dial, Stream};
use semel_server::delivery::resolve::Resolver;
use semel_server::net::Listener;
use turmoil::net::{TcpListener, TcpStream};

/// Where everybody listens.
pub(crate) const PORT: u16 = 80;

/// A socket of the simulated network.
pub(crate) struct SimListener(TcpListener);

impl SimListener {
    pub(crate) async fn bind() -> io::Result<Self> {
        Ok(Self(TcpListener::bind(("0.0.0.0", PORT)).await?))
    }
}

impl Listener for SimListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.accept().await
    }
}

/// Dials on the simulated network.
pub(crate) struct SimDial;

#[async_trait]
impl Dial for SimDial {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(TcpStream::connect(address).await?))
    }
}

/// Knows the hosts of the simulation.
pub(crate) struct SimResolver;

#[async_trait]
impl Resolver for SimResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![SocketAddr::new(turmoil::lookup(host), port)])
    }
}
