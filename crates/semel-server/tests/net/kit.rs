//! A small application, a server around it, and a client that sends bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::routing::{get, post};
use bytes::Bytes;
use semel_server::net::{Drained, Listener, Peer, Server, serve};
use semel_server::stop::{self, Stopper};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes: past it a test has found a hang. On the test's own clock, longer than any limit.
pub(crate) const DEADLINE: Duration = Duration::from_secs(600);

/// A request to which the answer is 200 and `ok`, on a connection that stays.
pub(crate) const HELLO: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Lets a test see that a request has begun, and lets it go on.
#[derive(Clone)]
pub(crate) struct Gate {
    begun: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    async fn pass(&self) -> &'static str {
        self.begun.add_permits(1);
        self.open.acquire().await.expect("never closed").forget();
        "done"
    }

    /// Returns when a request waits at the gate.
    pub(crate) async fn begun(&self) {
        within(self.begun.acquire()).await.expect("never closed").forget();
    }

    /// Lets one request pass.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

/// An application with a route for everything a test wants to see.
pub(crate) fn app() -> (Router, Gate) {
    let gate = Gate::new();
    let at_gate = gate.clone();
    let app = Router::new()
        .route("/", get(|| async { "ok" }))
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/peer", get(|Extension(Peer(peer)): Extension<Peer>| async move { peer.to_string() }))
        .route("/large", get(|| async { vec![b'x'; 4 << 20] }))
        .route("/wait", get(move || async move { at_gate.pass().await }));
    (app, gate)
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) gate: Gate,
    stopper: Stopper,
    serving: JoinHandle<Drained>,
}

impl Running {
    fn start(listener: impl Listener, change: impl FnOnce(&mut Server)) -> Self {
        let (app, gate) = app();
        let mut server = Server::new(app);
        change(&mut server);
        let (stopper, stop) = stop::pair();
        Self { gate, stopper, serving: tokio::spawn(serve(listener, server, stop)) }
    }

    /// Asks the server to stop.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    /// How it ended.
    pub(crate) async fn ended(self) -> Drained {
        within(self.serving).await.expect("serving does not panic")
    }
}

/// A server on a real socket.
pub(crate) async fn on_tcp(change: impl FnOnce(&mut Server)) -> (SocketAddr, Running) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (address, Running::start(listener, change))
}

/// The other end of a server that listens on pipes.
pub(crate) struct Pipes(mpsc::UnboundedSender<DuplexStream>);

struct PipeListener(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for PipeListener {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([192, 0, 2, 1], 1)))),
            None => std::future::pending().await,
        }
    }
}

/// A server on pipes, for tests whose clock stands still unless everybody waits.
pub(crate) fn on_pipes(change: impl FnOnce(&mut Server)) -> (Pipes, Running) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Pipes(sender), Running::start(PipeListener(receiver), change))
}

impl Pipes {
    pub(crate) fn connect(&self) -> Client<DuplexStream> {
        let (ours, theirs) = duplex(16 * 1024);
        self.0.send(theirs).expect("the server listens");
        Client::new(ours)
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head
            .get(9..12)
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("no status: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A client that sends whatever it is told to.
pub(crate) struct Client<S> {
    stream: S,
    read: Vec<u8>,
}

pub(crate) async fn connect(address: SocketAddr) -> Client<TcpStream> {
    Client::new(TcpStream::connect(address).await.expect("the server listens"))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// The connection itself.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// Sends bytes. Whether the server took them shows in its answer: one that has closed already is no error.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        within(self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    /// Sends a request and takes its answer.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).await;
        self.answer().await.expect("an answer")
    }

    /// The next answer; none if the connection ends instead.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            match self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if self.read_more().await => {}
                None => return None,
            }
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("a head is text");
        let mut answer = Answer { head, body: String::new() };
        let length: usize = answer.header("content-length").map_or(0, |n| n.parse().expect("a length"));
        while self.read.len() < length {
            assert!(self.read_more().await, "the body ended early: {answer:?}");
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).expect("bodies here are text");
        Some(answer)
    }

    async fn read_more(&mut self) -> bool {
        let read = within(self.stream.read_buf(&mut self.read)).await;
        read.is_ok_and(|n| n > 0)
    }

    /// Everything that comes until the connection ends.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        while self.read_more().await {}
        self.read
    }

    /// Whether the connection has ended, with nothing more to read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        !self.read_more().await && self.read.is_empty()
    }
}

/// Waits, but not for ever.
pub(crate) async fn within<F: IntoFuture>(future: F) -> F::Output {
    timeout(DEADLINE, future).await.expect("it takes too long")
}
