//! What a connection may cost, and how many there may be.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Connections by default, however many descriptors there are. Each costs some 20 KiB while it is quiet, so that this
/// many are 200 MiB, and a single server has no use for more.
const MOST_CONNECTIONS: u64 = 10_000;

/// Descriptors that are never given to connections, at least: the store's files, the runtime's own, and a few webhooks.
const LEAST_RESERVE: u64 = 32;

/// Descriptors that are kept from connections, at most. Webhooks are the most of them.
const MOST_RESERVE: u64 = 1024;

/// What a connection may cost. A client that stays within them never notices them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte of a head (or of a TLS handshake) to its last. A head is one packet; ten seconds are for the
    /// worst of networks.
    pub header_timeout: Duration,
    /// From the first wait for a body to its last byte.
    pub body_timeout: Duration,
    /// How long a connection may be kept without a request. Longer than the 60 s that load balancers keep theirs, so
    /// that it is they who close, and no request meets a connection that is just being closed.
    pub idle_timeout: Duration,
    /// How long a client may leave an answer lying without taking a byte of it.
    pub write_timeout: Duration,
    /// Connections at once; the next one is told to come back later.
    pub max_connections: usize,
    /// Bytes of a head, request line included. One more is a 431.
    pub max_header_bytes: usize,
    /// What only HTTP/2 has.
    pub http2: Http2Limits,
    /// How long running requests may take to finish once the server is to stop.
    pub grace: Duration,
}

/// What an HTTP/2 connection may cost.
///
/// A flood of CONTINUATION frames is ended by h2 itself, which allows as many as a head of the largest size needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Limits {
    /// Requests at once on one connection.
    pub max_streams: u32,
    /// Requests that were reset before they were looked at (rapid reset); one more ends the connection.
    pub max_pending_resets: usize,
    /// Resets that the client's own errors made us send; one more ends the connection.
    pub max_error_resets: usize,
    /// How often a quiet peer is asked whether it is there, and how long it has to say so.
    pub ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            max_connections: connections_for(getrlimit(Resource::Nofile).current),
            max_header_bytes: 64 * 1024,
            http2: Http2Limits::default(),
            grace: Duration::from_secs(25),
        }
    }
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            max_streams: 128,
            max_pending_resets: 20,
            max_error_resets: 128,
            ping: Duration::from_secs(20),
        }
    }
}

/// How many connections a process may keep that may have `descriptors` files open (`None`: as many as it likes).
/// A quarter stays with the store and the webhooks: a connection that is turned away can come back, a store that
/// cannot open its file cannot go on.
fn connections_for(descriptors: Option<u64>) -> usize {
    let descriptors = descriptors.unwrap_or(u64::MAX);
    let reserve = (descriptors / 4).clamp(LEAST_RESERVE, MOST_RESERVE);
    let connections = descriptors.saturating_sub(reserve).clamp(1, MOST_CONNECTIONS);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_make_fewer_connections_and_a_reserve_is_always_kept() {
        let connections = |descriptors| connections_for(Some(descriptors));
        assert_eq!([connections(8), connections(32), connections(64)], [1, 1, 32]);
        assert_eq!([connections(1024), connections(4096)], [768, 3072]);
        assert_eq!([connections(1 << 20), connections_for(None)], [10_000, 10_000]);
    }
}
