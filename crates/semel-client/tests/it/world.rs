//! A server in this process, on a real socket, whose time the test moves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use semel_client::State;
use semel_client::http::{Client, Job};
use semel_core::time::{Millis, Timestamp};
use semel_server::delivery::call::{Caller, CallerOptions};
use semel_server::delivery::dial::TcpDial;
use semel_server::delivery::guard::Guard;
use semel_server::delivery::resolve::SystemResolver;
use semel_server::net::{self, Server, Tls};
use semel_server::service::{AuthMode, Options, Running};
use semel_server::stop::{self, Stopper};
use semel_server::time::ManualAlarm;
use semel_store::{ManualClock, MemoryStore};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Longer than anything here takes: past it a test has found a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(crate) async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("what the test waits for does not happen")
}

/// Looks until it is so. What brings it about must be under way already.
pub(crate) async fn until(mut is: impl AsyncFnMut() -> bool) {
    within(async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A server that runs. A publish to an unknown queue makes it, as a pull queue.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    alarm: Arc<ManualAlarm>,
    settles: Arc<AtomicU64>,
    running: Running,
    stopper: Stopper,
    sockets: JoinHandle<()>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(Options { dev: true, ..Options::default() }, None).await
    }

    /// Over TLS, or of another kind. Everybody may use it.
    pub(crate) async fn with(options: Options, tls: Option<Tls>) -> Self {
        // Webhooks are signed with the time, and a worker compares it with its own.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(now.as_millis().try_into().unwrap())));
        let alarm = Arc::new(ManualAlarm::new(clock.clone()));
        let store = Arc::new(MemoryStore::new(clock));
        let options = Options { auth: AuthMode::Open, ..options };
        let running = Running::start(store, None, caller(), Some(alarm.clone()), options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settles = Arc::new(AtomicU64::new(0));
        let (stopper, stop) = stop::pair();
        let mut server = Server::new(running.router().layer(from_fn(counting(settles.clone()))));
        server.tls = tls;
        let sockets = tokio::spawn(async move {
            net::serve(listener, server, stop).await;
        });
        Self { address, alarm, settles, running, stopper, sockets }
    }

    /// Ends the server the way a signal would; nothing may be left running.
    pub(crate) async fn end(self) {
        self.stopper.stop();
        self.sockets.await.unwrap();
        self.running.stop(Duration::from_secs(10)).await.unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        Self::client_of(self.address)
    }

    /// A client that reaches the server through something else.
    pub(crate) fn client_of(address: SocketAddr) -> Client {
        Client::new(format!("http://{address}")).unwrap()
    }

    /// Moves time on; everybody who waits for it is woken.
    pub(crate) fn advance(&self, span: Duration) {
        self.alarm.advance(Millis::from_millis(span.as_millis().try_into().unwrap()));
    }

    /// Requests to settle that the server has answered: heartbeats and settles.
    pub(crate) fn settles(&self) -> u64 {
        self.settles.load(Ordering::SeqCst)
    }

    /// Waits until the job is in this state.
    pub(crate) async fn until(&self, job: &str, state: State) -> Job {
        let client = self.client();
        until(async || client.job(job).await.unwrap().state == state).await;
        client.job(job).await.unwrap()
    }

    /// What the client does not offer: makes a queue, or changes it.
    pub(crate) async fn put(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("PUT", path, body).await;
        assert!(status < 300, "{status}: {answer}");
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!(status < 300, "{status}: {answer}");
        answer
    }

    async fn ask(&self, method: &'static str, path: &str, body: Value) -> (u16, Value) {
        let (address, path) = (self.address, path.to_owned());
        tokio::task::spawn_blocking(move || ask(address, method, &path, &body)).await.unwrap()
    }

    /// A queue whose jobs are tried again at once.
    pub(crate) async fn impatient_queue(&self, name: &str) {
        let retry = json!({ "strategy": "fixed", "base": 0, "jitter": "none" });
        let queue = json!({ "delivery": { "type": "pull" }, "retry": retry });
        self.put(&format!("/v1/queues/{name}"), queue).await;
    }
}

fn counting(
    settles: Arc<AtomicU64>,
) -> impl Clone + Fn(Request, Next) -> std::pin::Pin<Box<dyn Future<Output = axum::response::Response> + Send>>
{
    move |request, next| {
        let settles = settles.clone();
        Box::pin(async move {
            let settle = request.uri().path() == "/v1/settle";
            let response = next.run(request).await;
            settles.fetch_add(u64::from(settle), Ordering::SeqCst);
            response
        })
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all((head + &kind).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A caller that may reach loopback, where the webhooks of tests are.
fn caller() -> Caller {
    Caller::new(CallerOptions {
        guard: Guard::open_to_loopback(),
        resolver: Arc::new(SystemResolver),
        dial: Arc::new(TcpDial),
        extra_ca: None,
        idle_per_host: 16,
    })
    .unwrap()
}
