//! From addresses to connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long one address has before the next is tried beside it: the "connection attempt delay" of RFC 8305. A host whose
/// first address is dead, typically IPv6 on a network that only pretends to have it, costs this much and not the delivery.
const STAGGER: Duration = Duration::from_millis(250);

/// A connection, whatever carries it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections. It is a trait so that the simulation can bring its own network.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// A connection to this address and to no other.
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>>;
}

/// Dials over TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDial;

#[async_trait]
impl Dial for TcpDial {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(address).await?;
        let peer = stream.peer_addr()?;
        // The guard judged `address`. Something on this machine that leads elsewhere would make its judgement worthless.
        if (peer.ip(), peer.port()) != (address.ip(), address.port()) {
            return Err(io::Error::other(format!("dialled {address} and reached {peer}")));
        }
        // A request is written at once and then waited for: there is nothing to gather.
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// Dials the addresses of a host, each a little after the one before or as soon as that one failed, and keeps the first
/// connection that stands. When none does, the last error is the answer.
pub(super) async fn dial_any(dial: &dyn Dial, addresses: &[SocketAddr]) -> io::Result<Box<dyn Stream>> {
    let mut failure = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    let mut dialling = FuturesUnordered::new();
    let mut untried = addresses.iter();
    let mut next = untried.next();
    loop {
        if let Some(address) = next.take() {
            dialling.push(dial.dial(*address));
        }
        let patience = tokio::time::sleep(STAGGER);
        tokio::select! {
            done = dialling.next() => match done {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => {
                    failure = error;
                    next = untried.next();
                }
                None => return Err(failure),
            },
            () = patience, if untried.len() > 0 => next = untried.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use tokio::io::DuplexStream;
    use tokio::time::Instant;

    use super::*;

    /// What becomes of a dialled address.
    #[derive(Clone, Copy)]
    enum Fate {
        Stands,
        Refuses,
        Silent,
    }

    /// A network of which only the fates are known; it notes who was dialled, and when.
    struct Network {
        fates: HashMap<SocketAddr, Fate>,
        dialled: Mutex<Vec<(SocketAddr, Duration)>>,
        start: Instant,
    }

    #[async_trait]
    impl Dial for Network {
        async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
            self.dialled.lock().unwrap().push((address, self.start.elapsed()));
            match self.fates[&address] {
                Fate::Stands => Ok(Box::new(standing())),
                Fate::Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
                Fate::Silent => std::future::pending().await,
            }
        }
    }

    fn standing() -> DuplexStream {
        tokio::io::duplex(1).0
    }

    fn address(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 80).into()
    }

    async fn dial_all(fates: &[Fate]) -> (io::Result<()>, Vec<(SocketAddr, Duration)>) {
        let fates: Vec<_> = (0..).zip(fates).map(|(n, fate)| (address(n), *fate)).collect();
        let addresses: Vec<_> = fates.iter().map(|(address, _)| *address).collect();
        let network =
            Network { fates: fates.into_iter().collect(), dialled: Mutex::default(), start: Instant::now() };
        let done = dial_any(&network, &addresses).await.map(drop);
        (done, network.dialled.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_stands_ends_it() {
        let (done, dialled) = dial_all(&[Fate::Stands, Fate::Stands]).await;
        assert!(done.is_ok());
        assert_eq!(dialled, [(address(0), Duration::ZERO)]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_the_next_is_dialled_at_once() {
        let (done, dialled) = dial_all(&[Fate::Refuses, Fate::Stands]).await;
        assert!(done.is_ok());
        assert_eq!(dialled, [(address(0), Duration::ZERO), (address(1), Duration::ZERO)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_delays_the_next_and_does_not_stop_it() {
        let (done, dialled) = dial_all(&[Fate::Silent, Fate::Refuses, Fate::Stands]).await;
        assert!(done.is_ok());
        assert_eq!(dialled, [(address(0), Duration::ZERO), (address(1), STAGGER), (address(2), STAGGER)]);
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_refuse_the_refusal_is_the_answer() {
        let (done, dialled) = dial_all(&[Fate::Refuses, Fate::Refuses]).await;
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(dialled.len(), 2);
        assert_eq!(dial_all(&[]).await.0.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
