//! The dispatcher of one push queue: leases what is ready and has it delivered, a bounded number at once.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::lease::{Delivery, LEASE_BATCH_MAX, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::StoreError;
use tokio::sync::futures::Notified;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::attempt::{After, attempt, put_back};
use super::call::Caller;
use super::target::Target;
use crate::news::Bell;
use crate::service::Service;
use crate::stop::Stop;

/// How long to leave a store alone that could not lease.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Deliveries under way at once that are a trickle: their settles may wait a moment for company.
const FEW: usize = 4;

/// A queue and its deliveries under way. It never waits for another queue.
pub(super) struct Dispatcher {
    service: Arc<Service>,
    caller: Caller,
    queue: QueueName,
    /// Says that the queue was changed; closed when it is gone or no longer pushes.
    changes: watch::Receiver<Arc<Target>>,
    target: Arc<Target>,
    /// The news of queues up to which the target is known to be current.
    current_at: Option<u64>,
    bell: Bell,
    /// Says that deliveries under way are to be put back.
    release: Stop,
    under_way: JoinSet<After>,
}

/// What a look at the queue brought.
enum Look {
    /// There may be more at once.
    Again,
    /// Nothing more until this time, or until the bell rings.
    Due(Option<Timestamp>),
    /// No room: a delivery has to end first.
    Full,
    /// The queue no longer pushes.
    Gone,
}

impl Dispatcher {
    pub(super) fn new(
        service: Arc<Service>,
        caller: Caller,
        queue: QueueName,
        changes: watch::Receiver<Arc<Target>>,
        release: Stop,
    ) -> Self {
        let bell = service.news.bells.of(&queue);
        let target = changes.borrow().clone();
        Self {
            service,
            caller,
            queue,
            changes,
            target,
            current_at: None,
            bell,
            release,
            under_way: JoinSet::new(),
        }
    }

    /// Runs until the server stops or the queue no longer pushes, and then until what is under way has ended.
    pub(super) async fn run(mut self) {
        while !self.service.stop.is_stopped() {
            let bell = self.bell.clone();
            let rung = bell.notified();
            tokio::pin!(rung);
            // Enabled before the look, so that a job that comes between the look and the wait is heard.
            rung.as_mut().enable();
            match self.look().await {
                Ok(Look::Again) => {}
                Ok(Look::Due(due)) => {
                    if self.wait(rung, due).await.is_break() {
                        break;
                    }
                }
                Ok(Look::Full) => self.wait_for_room().await,
                Ok(Look::Gone) => {
                    // What rang was perhaps meant for a worker that pulls.
                    self.bell.notify_one();
                    break;
                }
                Err(error) => {
                    warn!(queue = %self.queue, %error, "nothing could be leased");
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
        let Self { queue, changes, mut under_way, bell, .. } = self;
        // Now, and not when the last delivery has ended: a queue that pushes again gets another dispatcher.
        drop(changes);
        while let Some(ended) = under_way.join_next().await {
            // Nobody looks here any more; a worker that pulls from this queue now may.
            if report(&queue, ended) == After::Look {
                bell.notify_one();
            }
        }
    }

    /// Waits until there may be something to lease; breaks when there never will. A delivery that ended well and held up
    /// nobody is no reason to look.
    async fn wait(&mut self, mut rung: Pin<&mut Notified<'_>>, due: Option<Timestamp>) -> ControlFlow<()> {
        let Self { service, changes, current_at, under_way, queue, .. } = self;
        let due = service.until_due(due);
        tokio::pin!(due);
        loop {
            tokio::select! {
                // Whatever comes, the next look finds the rest of it; in a fixed order a simulation can be repeated.
                biased;
                () = service.stop.stopped() => return ControlFlow::Break(()),
                changed = changes.changed() => {
                    *current_at = None;
                    return if changed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
                }
                () = rung.as_mut() => return ControlFlow::Continue(()),
                Some(ended) = under_way.join_next() => if report(queue, ended) == After::Look {
                    return ControlFlow::Continue(());
                },
                () = due.as_mut() => return ControlFlow::Continue(()),
            }
        }
    }

    /// Waits until a delivery has ended, or it is time to stop.
    async fn wait_for_room(&mut self) {
        let Self { service, under_way, queue, .. } = self;
        tokio::select! {
            biased;
            () = service.stop.stopped() => {}
            Some(ended) = under_way.join_next() => {
                report(queue, ended);
            }
        }
    }

    /// Leases as much as there is room for and has it delivered.
    async fn look(&mut self) -> Result<Look, StoreError> {
        while let Some(ended) = self.under_way.try_join_next() {
            report(&self.queue, ended);
        }
        if !self.keep_current().await {
            return Ok(Look::Gone);
        }
        let busy = u32::try_from(self.under_way.len()).unwrap_or(u32::MAX);
        let room = self.target.in_flight.saturating_sub(busy).min(LEASE_BATCH_MAX);
        let Some(request) = (room > 0).then(|| LeaseRequest::new(self.queue.clone(), room, None)) else {
            return Ok(Look::Full);
        };
        let request = request.map_err(StoreError::Invalid)?;
        let store = &self.service.store;
        // Asked together, because each costs a store a wake-up and together they cost one. Should the second be answered
        // first, it is early, which does no harm.
        let (deliveries, due) = tokio::join!(biased; store.lease(request), store.next_due(&self.queue));
        let deliveries = deliveries?;
        let got_all = deliveries.len() == room as usize;
        if !deliveries.is_empty() && !self.is_still_current().await {
            deliveries.into_iter().for_each(|delivery| self.put_back(delivery));
            return Ok(Look::Gone);
        }
        let unhurried = !got_all && deliveries.len() + self.under_way.len() <= FEW;
        deliveries.into_iter().for_each(|delivery| self.deliver(delivery, unhurried));
        match got_all {
            // There is no room now, and when there is, there may be more.
            true => Ok(Look::Again),
            false => Ok(Look::Due(due?)),
        }
    }

    /// Once more after a lease: a job that was published after a change must not be delivered the old way. A change that
    /// was made at another node may not have been heard yet.
    async fn is_still_current(&mut self) -> bool {
        if self.service.peers.may_be_there() {
            self.current_at = None;
        }
        self.keep_current().await
    }

    /// Reads the webhook anew if the queue may have been changed, and says whether there still is one. The news are heard
    /// before a change is answered; what the keeper says comes later, but it also knows of changes by other nodes.
    async fn keep_current(&mut self) -> bool {
        let news = *self.service.news.queues.borrow();
        let told = self.changes.has_changed().unwrap_or(false);
        if self.current_at == Some(news) && !told {
            return true;
        }
        self.changes.mark_unchanged();
        let record = match self.service.store.queue(&self.queue).await {
            Ok(record) => record,
            Err(error) => {
                warn!(queue = %self.queue, %error, "the queue could not be read; its webhook is taken to be as before");
                return true;
            }
        };
        let usual = self.service.options.in_flight_per_queue;
        let Some(target) = record.and_then(|record| Target::of(&record, usual)) else { return false };
        self.target = Arc::new(target);
        self.current_at = Some(news);
        true
    }

    fn put_back(&mut self, delivery: Delivery) {
        let service = self.service.clone();
        self.under_way.spawn(async move {
            put_back(&service, &delivery).await;
            After::Look
        });
    }

    fn deliver(&mut self, delivery: Delivery, unhurried: bool) {
        let (service, caller) = (self.service.clone(), self.caller.clone());
        let (target, release) = (self.target.clone(), self.release.clone());
        let attempt = async move { attempt(&service, &caller, target, delivery, release, unhurried).await };
        self.under_way.spawn(attempt);
    }
}

/// A delivery that panicked is settled by nobody: its lease runs out, and it is delivered again.
fn report(queue: &QueueName, ended: Result<After, tokio::task::JoinError>) -> After {
    ended.unwrap_or_else(|error| {
        error!(%queue, %error, "a delivery ended in a panic; its lease will run out");
        After::Look
    })
}
