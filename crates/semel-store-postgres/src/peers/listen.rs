//! Hearing the other nodes: a connection of its own that listens.
//!
//! A connection that is open proves nothing: the server may be gone without a word, or a pooler may stand between that gives
//! the notifications to somebody else. So this node goes by hearing itself. Each heartbeat comes back here, sent over another
//! connection; if none does for a while, a note is sent to try, and if that does not come back either, this node is deaf.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::RngExt as _;
use semel_store::shared::Heard;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::AsyncMessage;

use super::inbox::Inbox;
use super::seat::Seat;
use super::{note, tell};
use crate::connect::{Maker, Pool, Wire};
use crate::fault::Fault;
use crate::session::Link;

/// How long this node may not hear itself before it sends a note to try. Heartbeats are half as far apart.
const QUIET: Duration = Duration::from_secs(10);
/// How long such a note may take.
const PROOF: Duration = Duration::from_secs(3);
/// The first wait before another connection is made, and the longest.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// How this node hears. Nothing is listened to before somebody asks.
#[derive(Debug)]
pub(crate) struct Ear {
    listener: Arc<Listener>,
    task: Mutex<Option<AbortHandle>>,
}

impl Ear {
    /// An ear that listens over connections of `maker`, and tries over those of `pool` whether it hears.
    pub(crate) fn new(maker: Maker, pool: Pool, seat: Seat) -> Self {
        let listener = Arc::new(Listener { maker, pool, seat, inbox: Inbox::default() });
        Self { listener, task: Mutex::default() }
    }

    /// The next thing that is heard.
    pub(super) async fn hear(&self) -> Heard {
        self.start();
        self.listener.inbox.next().await
    }

    fn start(&self) {
        let begin = || tokio::spawn(self.listener.clone().run()).abort_handle();
        self.lock().get_or_insert_with(begin);
    }

    /// Hears nothing more.
    pub(crate) fn stop(&self) {
        if let Some(task) = &*self.lock() {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().expect("the lock is never held across a panic")
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
struct Listener {
    maker: Maker,
    pool: Pool,
    seat: Seat,
    inbox: Inbox,
}

impl Listener {
    /// Listens until it is aborted. Whenever it cannot, it says so and tries again.
    async fn run(self: Arc<Self>) {
        let mut wait = AGAIN;
        loop {
            let fault = self.listen(&mut wait).await.err();
            self.inbox.hears(false);
            tracing::debug!(fault = fault.map(tracing::field::display), "this node does not hear the others");
            // Random, so that the nodes do not all come at once when the server is back.
            let part = rand::rng().random_range(0.5..1.0);
            sleep(wait.mul_f64(part)).await;
            wait = (wait * 2).min(AGAIN_MAX);
        }
    }

    /// Listens for as long as anything is heard. Once something is, the next wait is a short one.
    async fn listen(&self, wait: &mut Duration) -> Result<(), Fault> {
        let mut line = Line::open(&self.maker).await?;
        self.try_it().await?;
        let (mut trying, mut until) = (true, Instant::now() + PROOF);
        loop {
            match timeout_at(until, line.notes.recv()).await {
                Ok(Some(payload)) if self.take(&payload) => {
                    *wait = AGAIN;
                    (trying, until) = (false, Instant::now() + QUIET);
                }
                Ok(Some(_)) => {}
                Ok(None) => return Err(Fault::Lost("the connection that listens ended".into())),
                Err(_) if trying => return Err(Fault::Lost("notifications do not arrive".into())),
                Err(_) => {
                    self.try_it().await?;
                    (trying, until) = (true, Instant::now() + PROOF);
                }
            }
        }
    }

    /// Takes in a payload, and says whether it was this node's own.
    fn take(&self, payload: &str) -> bool {
        let (from, wakes) = note::read(payload);
        let own = from == Some(self.seat.node());
        if own {
            self.inbox.hears(true);
        } else {
            self.inbox.add(wakes);
        }
        own
    }

    async fn try_it(&self) -> Result<(), Fault> {
        tell::send(&self.pool.session().await?, &[note::own(self.seat.node())]).await
    }
}

/// A connection that listens. It ends when this is dropped.
struct Line {
    notes: mpsc::UnboundedReceiver<String>,
    driver: JoinHandle<()>,
    /// The connection lasts as long as this.
    link: Link,
}

impl Line {
    async fn open(maker: &Maker) -> Result<Self, Fault> {
        let (sender, notes) = mpsc::unbounded_channel();
        let opened = maker.connect_to_primary(|wire| tokio::spawn(pass_on(wire, sender.clone())));
        let (link, driver) = opened.await?;
        let line = Self { notes, driver, link };
        let listening = timeout(PROOF, line.link.script("LISTEN semel")).await;
        listening.map_err(|_| Fault::Lost("the server does not answer".into()))??;
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Drives a connection and passes on what it is notified of.
async fn pass_on(mut wire: Wire, notes: mpsc::UnboundedSender<String>) {
    while let Some(Ok(message)) = poll_fn(|cx| wire.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message
            && notes.send(notification.payload().to_owned()).is_err()
        {
            return;
        }
    }
}
