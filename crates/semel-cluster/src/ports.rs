//! Ports for servers that must come back on the same one after they were killed.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::Error;

/// Below the range that the system gives to outgoing connections: one of those on a stopped server's port would keep
/// the server from starting again.
const FIRST: u16 = 16_000;
const COUNT: u16 = 16_000;

/// A port of the loopback that nobody listens on.
pub(crate) fn unused() -> Result<u16, Error> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = seed();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        if TcpListener::bind(on_loopback(port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::Missing("a free port on 127.0.0.1".to_owned()))
}

pub(crate) fn on_loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Tests run side by side, each in its process: each begins to look somewhere else.
fn seed() -> u16 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mixed = now.subsec_nanos().wrapping_mul(2_654_435_761) ^ std::process::id().wrapping_mul(40_503);
    u16::try_from(mixed >> 16).unwrap_or_default()
}
