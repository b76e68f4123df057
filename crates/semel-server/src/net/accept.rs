//! The accept loop: lets connections in, turns away what is too many, and at the end waits for those inside.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::closing::Closing;
use super::listener::{Listener, Stream};
use super::{Server, connection, refusal};
use crate::stop::Stop;

/// How long to wait when the process or the machine has no descriptor left. One is free when a connection ends; asking
/// again at once would only burn a core.
const BACK_OFF: Duration = Duration::from_millis(50);

/// How often the same trouble is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Connections that are being told that there are too many. They cost descriptors of the reserve, so they are few; what
/// comes on top is closed without a word.
const TURNED_AWAY_AT_ONCE: usize = 8;

/// What every connection shares.
pub(super) struct Door {
    pub(super) server: Server,
    pub(super) closing: Closing,
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections whose request was still running when the grace was over; they were cut.
    pub cut: usize,
}

/// Serves connections until it is time to stop. Then no more is accepted, idle connections are
/// closed at once, and running requests have [`grace`](super::Limits::grace) to finish.
pub async fn serve<L: Listener>(mut listener: L, server: Server, stop: Stop) -> Drained {
    let door = Arc::new(Door { server, closing: Closing::default() });
    let mut guests = Guests { door: door.clone(), inside: JoinSet::new(), turned_away: JoinSet::new() };
    guests.let_in(&mut listener, &stop).await;
    // From here on the kernel refuses newcomers, which tells a load balancer more than a connection without an answer.
    drop(listener);
    door.closing.set();
    guests.see_out().await
}

struct Guests {
    door: Arc<Door>,
    inside: JoinSet<()>,
    turned_away: JoinSet<()>,
}

impl Guests {
    async fn let_in<L: Listener>(&mut self, listener: &mut L, stop: &Stop) {
        let mut stopped = pin!(stop.stopped());
        let mut trouble = Trouble::default();
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return,
                Some(ended) = self.inside.join_next() => note(ended),
                Some(ended) = self.turned_away.join_next() => note(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.welcome(stream, peer),
                    Err(error) => trouble.meet(&error).await,
                }
            }
        }
    }

    fn welcome<S: Stream>(&mut self, stream: S, peer: SocketAddr) {
        if self.inside.len() < self.door.server.limits.max_connections {
            self.inside.spawn(connection::run(stream, peer, self.door.clone()));
        } else if self.door.server.tls.is_none() && self.turned_away.len() < TURNED_AWAY_AT_ONCE {
            self.turned_away.spawn(refusal::too_many(stream));
        }
    }

    async fn see_out(mut self) -> Drained {
        let all = async {
            while let Some(ended) = self.inside.join_next().await {
                note(ended);
            }
        };
        let in_time = timeout(self.door.server.limits.grace, all).await.is_ok();
        let cut = if in_time { 0 } else { self.inside.len() };
        self.inside.shutdown().await;
        Drained { cut }
    }
}

/// A panic ends its own connection, and must not go unnoticed.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection panicked");
    }
}

/// What goes wrong with accepting, told once in a while.
#[derive(Default)]
struct Trouble {
    told: Option<Instant>,
}

impl Trouble {
    /// Logs, and waits if the next try would fail in the same way.
    async fn meet(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.told.is_none_or(|told| now - told >= LOG_EVERY) {
            self.told = Some(now);
            tracing::warn!(%error, "cannot accept connections; is the limit on open files (ulimit -n) too low?");
        }
        if exhausted(error) {
            sleep(BACK_OFF).await;
        }
    }
}

/// Whether something has run out, as opposed to a client that was gone before it was let in.
fn exhausted(error: &io::Error) -> bool {
    let gone = [Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR, Errno::NOTCONN, Errno::INVAL];
    !Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}
