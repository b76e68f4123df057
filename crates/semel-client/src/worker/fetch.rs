//! The loop: lease, hand to the handler, and at the end drain.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::heartbeat::Heartbeat;
use super::held::Held;
use super::settler::{Settled, Settler};
use super::tally::Counts;
use super::{Tally, Worker};
use crate::http::Error;
use crate::{Delivery, Handler, Outcome};

/// Most jobs in one lease, as the server has it.
const LEASE_MAX: usize = 256;

/// How long to leave a server alone that could not lease. The client has tried for its whole deadline by then.
const PAUSE: Duration = Duration::from_secs(1);

/// How long work that was broken off may take to end. Only a handler that blocks its thread takes longer, and cannot be
/// helped.
const BREAKING_OFF: Duration = Duration::from_secs(2);

/// What the tasks of a worker share.
struct Bench<H> {
    handler: H,
    held: Arc<Held>,
    settles: Sender<Settled>,
    lease: Duration,
}

impl Worker {
    /// Works until `stop` is ready, then finishes what it has, and says what it did. It ends by itself only if the server
    /// refuses to give it jobs: it has not the right to, or there is no such queue.
    ///
    /// Dropping the future is a crash: what was in hand is delivered again when its lease is over.
    pub async fn run<H: Handler>(
        self,
        handler: H,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Tally, Error> {
        let (held, counts) = (Arc::new(Held::default()), Arc::new(Counts::default()));
        let (settles, inbox) = mpsc::channel(self.concurrency);
        let (client, lease) = (self.client.clone(), self.lease);
        let settler = Settler { client: client.clone(), counts: counts.clone(), inbox, lease };
        let settler = Ended(tokio::spawn(settler.run()));
        let beats = Heartbeat { client, held: held.clone(), counts: counts.clone(), lease };
        let beats = Ended(tokio::spawn(beats.run()));
        let bench = Arc::new(Bench { handler, held, settles, lease });
        let mut tasks = JoinSet::new();
        let ended = self.fetch(&bench, &mut tasks, stop).await;
        drain(&bench, &mut tasks, self.grace).await;
        // The last sender: the settler ends when it has sent everything.
        drop((bench, tasks));
        settler.wait().await;
        drop(beats);
        ended.map(|()| counts.tally())
    }

    /// Leases and starts work until it is to stop.
    async fn fetch<H: Handler>(
        &self,
        bench: &Arc<Bench<H>>,
        tasks: &mut JoinSet<()>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let room = Arc::new(Semaphore::new(self.concurrency));
        let mut stop = pin!(stop);
        loop {
            let leased = async {
                let slots = free(&room).await;
                (self.lease_for(slots.len()).await, slots)
            };
            // A long poll that is dropped ends on the server, too. The job of one that was being answered in this moment
            // is delivered again when its lease is over.
            let (leased, slots) = tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                leased = leased => leased,
            };
            while tasks.try_join_next().is_some() {}
            match leased {
                Ok(deliveries) => {
                    for (delivery, slot) in deliveries.into_iter().zip(slots) {
                        tasks.spawn(bench.clone().work(delivery, slot));
                    }
                }
                Err(error) if error.retryable() => {
                    tracing::warn!(%error, queue = self.queue, "no jobs could be leased");
                    let wait = error.problem().and_then(|problem| problem.retry_after).unwrap_or(PAUSE);
                    tokio::select! {
                        () = &mut stop => return Ok(()),
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn lease_for(&self, room: usize) -> Result<Vec<Delivery>, Error> {
        self.client.lease(&self.queue, room, self.poll, Some(self.lease)).await
    }
}

/// The free slots: one at least, which is waited for.
async fn free(room: &Arc<Semaphore>) -> Vec<OwnedSemaphorePermit> {
    let first = room.clone().acquire_owned().await.expect("nobody closes it");
    let more = std::iter::from_fn(|| room.clone().try_acquire_owned().ok());
    std::iter::once(first).chain(more.take(LEASE_MAX - 1)).collect()
}

impl<H: Handler> Bench<H> {
    /// One delivery, from the handler to the settler.
    async fn work(self: Arc<Self>, delivery: Delivery, slot: OwnedSemaphorePermit) {
        let (job, lease) = (delivery.id.clone(), delivery.lease.clone());
        let bench = self.clone();
        let mut handler = Ended(tokio::spawn(async move { bench.handler.handle(delivery).await }));
        self.held.add(&job, &lease, handler.0.abort_handle());
        let ended = (&mut handler.0).await;
        let still_ours = self.held.remove(&lease);
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Outcome::fail("the handler panicked; its log says where"),
            // Broken off because it was lost, which is settled by whoever has it now; or because the time to stop was up.
            Err(_) if !still_ours => return,
            Err(_) => Outcome::defer(Duration::ZERO).because("the worker stopped before it was finished"),
        };
        let until = Instant::now() + self.lease;
        // Sending fails only when the settler is gone, and with it the worker.
        drop(self.settles.send(Settled { job, lease, outcome, until }).await);
        drop(slot);
    }
}

/// Waits for what is in hand, and after the grace breaks it off.
async fn drain<H: Handler>(bench: &Bench<H>, tasks: &mut JoinSet<()>, grace: Duration) {
    let all = async |tasks: &mut JoinSet<()>| while tasks.join_next().await.is_some() {};
    if timeout(grace, all(tasks)).await.is_err() {
        tracing::warn!("what was not finished in time is put back, without burning an attempt");
        bench.held.break_off();
        // What does not even break off is left to its lease.
        drop(timeout(BREAKING_OFF, all(tasks)).await);
    }
}

/// A task that ends with this guard: a worker that is dropped leaves nothing running.
struct Ended<T>(JoinHandle<T>);

impl<T> Ended<T> {
    async fn wait(mut self) {
        // A panic of our own was told when it happened.
        drop((&mut self.0).await);
    }
}

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
