//! From host names to addresses.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;

/// Finds the addresses of a host. It is a trait so that tests and the simulation can answer as they like.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of the host, in the order in which they should be tried. Hosts that are addresses already do not come
    /// here. A caller may stop waiting at any time.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Asks the system, as every other program on the machine does: `/etc/hosts` and search domains count.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_knows_its_own_machine() {
        let found = SystemResolver.resolve("localhost", 80).await.unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|a| a.ip().is_loopback() && a.port() == 80),
            "{found:?}"
        );
    }
}
