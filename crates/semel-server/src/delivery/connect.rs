//! One connection to a webhook: how it is made, and what goes over it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use semel_core::outcome::DeliveryError;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::dial::{Dial, Stream, dial_any};
use super::endpoint::Origin;
use super::guard::{Guard, literal};
use super::resolve::Resolver;

/// Largest head of an answer. Servers send a few hundred bytes, and no proxy on the way lets pass much more than this.
const HEAD_MAX: usize = 32 * 1024;

/// What is read ahead from one connection. It bounds the memory that an endpoint can make the server hold.
const BUFFER_MAX: usize = 64 * 1024;

/// How long a connection may take to become free after its answer was read to the end. That takes its task one more turn;
/// an endpoint that answered without reading the whole request keeps it busy for longer, and loses it.
const FREE_WITHIN: Duration = Duration::from_millis(100);

/// Whether a connection failed because this process or machine has run out of something, whoever was to be called.
fn lacks_means(error: &io::Error) -> bool {
    let out_of = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| out_of.contains(&errno))
}

/// The request of a delivery.
pub(super) type Post = Request<Full<Bytes>>;

/// Makes connections: resolves, asks the guard, dials, and speaks TLS.
pub(super) struct Connector {
    pub(super) guard: Guard,
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) dial: Arc<dyn Dial>,
    pub(super) tls: Arc<ClientConfig>,
}

impl Connector {
    /// A new connection. It has no time limit of its own: the delivery's deadline is over all of it.
    pub(super) async fn connect(&self, origin: &Origin) -> Result<Connection, DeliveryError> {
        let addresses = self.addresses(origin).await?;
        let stream = dial_any(self.dial.as_ref(), &addresses).await.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => DeliveryError::Timeout,
            _ if lacks_means(&error) => DeliveryError::Unable(error.to_string()),
            // Whatever else it was, the endpoint has seen nothing of the delivery.
            _ => DeliveryError::Refused(error.to_string()),
        })?;
        let stream = if origin.secure { self.secure(origin, stream).await? } else { stream };
        Connection::open(stream).await.map_err(|error| DeliveryError::Reset(error.to_string()))
    }

    /// The addresses to dial, and no others: resolving again between the guard and the dialling would let a name lead
    /// somewhere else by then.
    async fn addresses(&self, origin: &Origin) -> Result<Vec<SocketAddr>, DeliveryError> {
        let found = match literal(&origin.host).map_err(DeliveryError::Blocked)? {
            Some(ip) => vec![(ip, origin.port).into()],
            None => {
                let answer = self.resolver.resolve(&origin.host, origin.port).await;
                answer.map_err(|error| DeliveryError::Dns(error.to_string()))?
            }
        };
        if found.is_empty() {
            return Err(DeliveryError::Dns(format!("{} has no address", origin.host)));
        }
        self.guard.check(&origin.host, &found).map_err(DeliveryError::Blocked)
    }

    async fn secure(
        &self,
        origin: &Origin,
        stream: Box<dyn Stream>,
    ) -> Result<Box<dyn Stream>, DeliveryError> {
        let name = server_name(&origin.host)?;
        let secured = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| DeliveryError::Tls(error.to_string()))?))
    }
}

/// The name that the certificate must be for.
fn server_name(host: &str) -> Result<ServerName<'static>, DeliveryError> {
    let name = match literal(host).map_err(DeliveryError::Blocked)? {
        Some(ip) => return Ok(ServerName::IpAddress(ip.into())),
        // Certificates name hosts without the final dot.
        None => host.strip_suffix('.').unwrap_or(host),
    };
    ServerName::try_from(name.to_owned())
        .map_err(|_| DeliveryError::Tls(format!("{host} is not a name that a certificate can be for")))
}

/// A connection. It closes when this is dropped, whatever was going on over it.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Connection {
    async fn open(stream: Box<dyn Stream>) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_header_size(HEAD_MAX)
            .max_buf_size(BUFFER_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // How the connection ended is told to the request that is under way; without one, nobody needs to know.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, driver })
    }

    /// Sends a request and waits for the head of its answer. An error gives the request back if, and only if, not a byte of
    /// it was written.
    pub(super) async fn send(&mut self, post: Post) -> Result<Response<Incoming>, TrySendError<Post>> {
        self.sender.try_send_request(post).await
    }

    /// Whether another request could be sent at once.
    pub(super) fn is_free(&self) -> bool {
        self.sender.is_ready()
    }

    /// Waits the moment that it takes to become free.
    pub(super) async fn becomes_free(&mut self) -> bool {
        let ready = tokio::time::timeout(FREE_WITHIN, self.sender.ready()).await;
        ready.is_ok_and(|ready| ready.is_ok())
    }
}

impl Drop for Connection {
    /// The driver would end by itself, but not before it has written what it holds; an endpoint that reads nothing could
    /// keep it, and its descriptor, for good.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_for_names_and_addresses() {
        assert_eq!(server_name("worker.example.").unwrap().to_str(), "worker.example");
        assert_eq!(server_name("[::1]").unwrap().to_str(), "::1");
        assert_eq!(server_name("127.0.0.1").unwrap().to_str(), "127.0.0.1");
        assert!(matches!(server_name("a..b"), Err(DeliveryError::Tls(_))));
        assert!(matches!(server_name("127.1"), Err(DeliveryError::Blocked(_))));
    }
}
