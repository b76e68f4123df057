//! Sockets: who may connect, for how long, and how a connection ends.
//!
//! The accept loop is our own, because `axum::serve` sets no timer: with it, a client that sends a header one byte at a
//! time keeps its connection for ever. Here every connection has one watch ([`watch`]) that knows what it is waiting for
//! and ends the wait.
//!
//! ```text
//! Listener --> accept --> connection: TLS, HTTP/1 or 2 --> service: Peer, shedding --> axum Router
//!                |            |
//!                |            +-- wire (what moves), pulse (what is waited for), watch (for how long)
//!                +-- too many: refused with fixed bytes
//! ```

mod accept;
mod body;
mod closing;
mod connection;
mod limits;
mod listener;
mod pulse;
mod refusal;
mod service;
mod tls;
mod watch;
mod wire;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;

pub use self::accept::{Drained, serve};
pub use self::body::BodyTooSlow;
pub use self::limits::{Http2Limits, Limits};
pub use self::listener::{Listener, Stream};
pub use self::tls::{Tls, TlsError};

/// Who is at the other end of the connection a request came by; every request carries it as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Says that there is no room for another command, and when there should be. Asked once per request: it must be quick.
pub type Shed = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// What is served, and how.
#[derive(Clone)]
pub struct Server {
    /// Who answers requests.
    pub app: Router,
    /// What a connection may cost.
    pub limits: Limits,
    /// Speak TLS, and nothing else.
    pub tls: Option<Tls>,
    /// When to turn requests away before their body is read.
    pub shed: Shed,
}

impl Server {
    /// Serves `app` without TLS, with the default limits, and sheds nothing but connections.
    pub fn new(app: Router) -> Self {
        Self { app, limits: Limits::default(), tls: None, shed: Arc::new(|| None) }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).field("tls", &self.tls).finish_non_exhaustive()
    }
}
