//! One dispatcher for every push queue, kept in step with the queues there are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use semel_core::name::QueueName;
use semel_store::StoreError;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{error, warn};

use super::call::Caller;
use super::dispatcher::Dispatcher;
use super::target::Target;
use crate::service::Service;
use crate::stop::{self, Stop, Stopper};

/// The dispatchers of a server.
#[derive(Debug)]
pub struct Dispatchers {
    keeper: JoinHandle<()>,
    release: Stopper,
}

impl Dispatchers {
    /// Starts one for every push queue, now and later.
    pub fn start(service: Arc<Service>, caller: Caller) -> Self {
        let (release, released) = stop::pair();
        let keeper = Keeper { service, caller, released, targets: HashMap::new(), running: JoinSet::new() };
        Self { keeper: tokio::spawn(keeper.run()), release }
    }

    /// Waits for deliveries under way, at most for `grace`, then has the rest put back. Tell the service to stop before.
    pub async fn stop(mut self, grace: Duration) {
        if tokio::time::timeout(grace, &mut self.keeper).await.is_err() {
            self.release.stop();
            if let Err(error) = self.keeper.await {
                error!(%error, "the dispatchers ended in a panic");
            }
        }
    }
}

/// Starts and ends dispatchers.
struct Keeper {
    service: Arc<Service>,
    caller: Caller,
    released: Stop,
    targets: HashMap<QueueName, watch::Sender<Arc<Target>>>,
    running: JoinSet<()>,
}

impl Keeper {
    async fn run(mut self) {
        let mut changes = self.service.news.queues.subscribe();
        while !self.service.stop.is_stopped() {
            changes.mark_unchanged();
            if let Err(error) = self.keep_in_step().await {
                warn!(%error, "the queues could not be read");
            }
            while self.running.try_join_next().is_some() {}
            tokio::select! {
                () = self.service.stop.stopped() => break,
                // News live as long as the service, so this cannot fail.
                changed = changes.changed() => if changed.is_err() { break },
                // Another node may have changed a queue.
                () = tokio::time::sleep(self.service.options.poll) => {}
            }
        }
        while self.running.join_next().await.is_some() {}
    }

    async fn keep_in_step(&mut self) -> Result<(), StoreError> {
        let usual = self.service.options.in_flight_per_queue;
        let records = self.service.store.queues().await?;
        // By name, so that dispatchers begin in an order that a simulation can repeat.
        let wanted: BTreeMap<_, _> = records
            .iter()
            .filter_map(|record| Some((record.name.clone(), Arc::new(Target::of(record, usual)?))))
            .collect();
        // A dispatcher whose target is dropped takes no more jobs, and ends with its last delivery.
        self.targets.retain(|queue, _| wanted.contains_key(queue));
        for (queue, target) in wanted {
            match self.targets.get(&queue) {
                // One whose dispatcher has ended, because for a moment the queue did not push, begins anew.
                Some(sender) if !sender.is_closed() => {
                    sender.send_if_modified(|now| {
                        let changed = *now != target;
                        *now = target;
                        changed
                    });
                }
                _ => self.begin(queue, target),
            }
        }
        Ok(())
    }

    fn begin(&mut self, queue: QueueName, target: Arc<Target>) {
        let (sender, receiver) = watch::channel(target);
        let (service, caller) = (self.service.clone(), self.caller.clone());
        let dispatcher = Dispatcher::new(service, caller, queue.clone(), receiver, self.released.clone());
        self.running.spawn(dispatcher.run());
        self.targets.insert(queue, sender);
    }
}
