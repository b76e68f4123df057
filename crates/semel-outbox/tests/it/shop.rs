//! An outbox, a server, and what arrived there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_client::http::Client;
use semel_outbox::Publish;
use semel_outbox::relay::{Relay, Tally};
use semel_server::delivery::call::{Caller, CallerOptions};
use semel_server::delivery::dial::TcpDial;
use semel_server::delivery::guard::Guard;
use semel_server::delivery::resolve::SystemResolver;
use semel_server::net::{self, Server};
use semel_server::service::{AuthMode, Options, Running};
use semel_server::stop::{self, Stopper};
use semel_store::{JobQuery, MemoryStore, SystemClock};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::base::{Base, Kind};

/// Longer than anything here takes: past it a test has found a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(crate) async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("what the test waits for does not happen")
}

/// Looks until it is so.
pub(crate) async fn until(mut is: impl AsyncFnMut() -> bool) {
    within(async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A shop with an outbox, and a server that makes queues as they are published to.
pub(crate) struct Shop {
    pub(crate) base: Base,
    pub(crate) address: SocketAddr,
    running: Running,
    stopper: Stopper,
    sockets: JoinHandle<()>,
}

/// A relay that runs.
pub(crate) struct Carrying {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
}

impl Carrying {
    pub(crate) fn start(relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        Self { stop: Some(stop), task: tokio::spawn(relay.run(async { drop(stopped.await) })) }
    }

    pub(crate) async fn stop(mut self) -> Tally {
        drop(self.stop.take());
        within(self.task).await.unwrap()
    }
}

impl Shop {
    pub(crate) async fn open(kind: Kind) -> Self {
        Self::with(kind, AuthMode::Open).await
    }

    pub(crate) async fn with(kind: Kind, auth: AuthMode) -> Self {
        let base = Base::open(kind).await;
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        let options = Options { dev: true, auth, ..Options::default() };
        let running = Running::start(store, None, caller(), None, options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stopper, stop) = stop::pair();
        let server = Server::new(running.router());
        let sockets = tokio::spawn(async move {
            net::serve(listener, server, stop).await;
        });
        Self { base, address, running, stopper, sockets }
    }

    /// A relay to the server.
    pub(crate) async fn relay(&self) -> Relay {
        self.relay_to(self.address).await
    }

    /// The same through something else.
    pub(crate) async fn relay_to(&self, address: SocketAddr) -> Relay {
        let client = Client::new(format!("http://{address}")).unwrap();
        Relay::open(&self.base.url(), &client).await.unwrap()
    }

    /// The keys of the jobs of a queue, in the order in which they were made.
    pub(crate) async fn keys(&self, queue: &str) -> Vec<String> {
        let mut keys = Vec::new();
        let mut query =
            JobQuery { queue: Some(queue.try_into().unwrap()), limit: 1000, ..JobQuery::default() };
        loop {
            let page = self.running.service().store.jobs(query.clone()).await.unwrap();
            keys.extend(page.items.iter().map(|job| job.spec.key.as_ref().unwrap().as_str().to_owned()));
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        keys.reverse();
        keys
    }

    /// Changes a queue: `members` are what it has besides being pulled from.
    pub(crate) async fn queue(&self, name: &str, mut members: serde_json::Value) {
        members["delivery"] = json!({ "type": "pull" });
        let (address, path) = (self.address, format!("/v1/queues/{name}"));
        let put = move || put(address, &path, &members.to_string());
        let answer = tokio::task::spawn_blocking(put).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }

    pub(crate) async fn close(self) {
        self.stopper.stop();
        self.sockets.await.unwrap();
        self.running.stop(Duration::from_secs(10)).await.unwrap();
        self.base.close().await;
    }
}

/// A wish with a number as its payload and key.
pub(crate) fn wish(queue: &str, n: usize, group: Option<&str>) -> Publish {
    let wish = Publish::new(queue, &n).unwrap().key(format!("k-{n:04}"));
    match group {
        Some(group) => wish.group(group),
        None => wish,
    }
}

fn put(address: SocketAddr, path: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all((head + &kind).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn caller() -> Caller {
    Caller::new(CallerOptions {
        guard: Guard::open_to_loopback(),
        resolver: Arc::new(SystemResolver),
        dial: Arc::new(TcpDial),
        extra_ca: None,
        idle_per_host: 1,
    })
    .unwrap()
}
