//! The parts of a caller that tests choose: what names lead to, and what is dialled.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use semel_core::outcome::DeliveryError;
use semel_server::delivery::call::{Answer, Call, Caller, CallerOptions};
use semel_server::delivery::dial::{Dial, Stream, TcpDial};
use semel_server::delivery::endpoint::Endpoint;
use semel_server::delivery::guard::Guard;
use semel_server::delivery::resolve::Resolver;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Ample, for calls that are expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// For calls that are expected to time out.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// An address of the internet. No packet goes there: [`Wire`] leads it to loopback.
pub(crate) const PUBLIC: [u8; 4] = [93, 184, 215, 14];

/// What a name server says.
pub(crate) enum Says {
    Addresses(Vec<SocketAddr>),
    Fails,
    Nothing,
}

/// A name server that gives its answers one after the other, and notes what it was asked.
#[derive(Default)]
pub(crate) struct Names {
    script: Mutex<VecDeque<Says>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn saying(script: impl IntoIterator<Item = Says>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let says = self.script.lock().unwrap().pop_front();
        match says {
            Some(Says::Addresses(addresses)) => Ok(addresses),
            Some(Says::Fails) => Err(io::Error::other("no such name")),
            Some(Says::Nothing) => std::future::pending().await,
            None => panic!("{host} was looked up once more than expected"),
        }
    }
}

/// Dials over TCP and notes what was dialled. Public addresses lead to `internet`, a listener on loopback.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) internet: Option<SocketAddr>,
    dialled: Mutex<Vec<SocketAddr>>,
}

impl Wire {
    pub(crate) fn to(internet: SocketAddr) -> Arc<Self> {
        Arc::new(Self { internet: Some(internet), dialled: Mutex::default() })
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.dialled.lock().unwrap().clone()
    }
}

#[async_trait]
impl Dial for Wire {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        self.dialled.lock().unwrap().push(address);
        let target = if address.ip().is_loopback() { Some(address) } else { self.internet };
        TcpDial.dial(target.expect("only loopback may be dialled")).await
    }
}

/// Connections without sockets, for tests in which the order of events must be exact or time stands still.
pub(crate) struct Pipes(mpsc::UnboundedSender<DuplexStream>);

impl Pipes {
    /// The dialling side, and where the worker's ends of its connections come out.
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<DuplexStream>) {
        let (ends, workers) = mpsc::unbounded_channel();
        (Arc::new(Self(ends)), workers)
    }
}

#[async_trait]
impl Dial for Pipes {
    async fn dial(&self, _: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let (ours, theirs) = tokio::io::duplex(4096);
        self.0.send(theirs).unwrap();
        Ok(Box::new(ours))
    }
}

pub(crate) fn caller(guard: Guard, names: &Arc<Names>, dial: Arc<dyn Dial>) -> Caller {
    let options = CallerOptions { guard, resolver: names.clone(), dial, extra_ca: None, idle_per_host: 8 };
    Caller::new(options).unwrap()
}

/// A caller that may call loopback, and has no name server.
pub(crate) fn local_caller() -> Caller {
    caller(Guard::open_to_loopback(), &Arc::default(), Arc::<Wire>::default())
}

pub(crate) fn to(url: &str, timeout: Duration) -> Call {
    Call {
        url: Arc::new(Endpoint::parse(url).unwrap()),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        timeout,
    }
}

/// Calls a worker on loopback with a caller of its own.
pub(crate) async fn call(worker: SocketAddr, timeout: Duration) -> Result<Answer, DeliveryError> {
    local_caller().call(to(&format!("http://{worker}/"), timeout)).await
}
