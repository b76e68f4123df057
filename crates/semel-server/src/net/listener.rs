//! Where connections come from. The kernel's sockets in life, the simulated network in a simulation.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// Something that accepts connections.
pub trait Listener: Send + 'static {
    /// A connection.
    type Stream: Stream;

    /// The next connection, and who made it. MUST be safe to drop before it is ready: no connection is lost by it.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // An answer is one small write; held back for the acknowledgement of the last one, it would come 40 ms late.
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }
}
