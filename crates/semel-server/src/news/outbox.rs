//! What other nodes are to be told, gathered until it is sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use semel_core::name::QueueName;
use semel_store::shared::{NodeId, Wakes};
use tokio::sync::Notify;

/// Where other nodes should look. It stays empty while there are none: most servers are alone, and a publish should not pay
/// for company it does not have.
#[derive(Debug, Default)]
pub struct Outbox {
    open: AtomicBool,
    wakes: Mutex<Wakes>,
    filled: Notify,
}

impl Outbox {
    /// Says whether anybody is there to be told.
    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// A queue may have something for so many workers.
    pub(super) fn ready(&self, queue: &QueueName, jobs: u32) {
        self.add(|wakes| match wakes.ready.get_mut(queue) {
            Some(before) => *before = before.saturating_add(jobs),
            None => drop(wakes.ready.insert(queue.clone(), jobs)),
        });
    }

    /// A queue was made, changed, paused or resumed.
    pub(super) fn changed(&self, queue: &QueueName) {
        self.add(|wakes| {
            wakes.changed.insert(queue.clone());
        });
    }

    /// A queue was taken away.
    pub(super) fn gone(&self, queue: &QueueName) {
        self.add(|wakes| {
            wakes.gone.insert(queue.clone());
        });
    }

    /// An API key was made or taken away.
    pub(super) fn api_keys(&self) {
        self.add(|wakes| wakes.api_keys = true);
    }

    /// A schedule or a replay task was made, changed or taken away.
    pub(super) fn tasks(&self) {
        self.add(|wakes| wakes.tasks = true);
    }

    /// This node commits often.
    pub(crate) fn busy(&self, node: NodeId) {
        self.add(|wakes| {
            wakes.busy.insert(node);
        });
    }

    fn add(&self, change: impl FnOnce(&mut Wakes)) {
        if self.open.load(Ordering::Acquire) {
            change(&mut self.lock());
            self.filled.notify_one();
        }
    }

    /// Waits until there may be something to tell.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Takes what there is to tell.
    pub(crate) fn take(&self) -> Wakes {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Wakes> {
        self.wakes.lock().expect("no one panics while holding the outbox")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_happens_in_company_is_gathered_and_taken_once() {
        let outbox = Outbox::default();
        let queue = QueueName::try_from("q").unwrap();
        outbox.ready(&queue, 1);
        assert!(outbox.take().is_empty(), "nobody is there to be told");
        outbox.set_open(true);
        outbox.ready(&queue, 1);
        outbox.ready(&queue, 2);
        outbox.changed(&queue);
        outbox.gone(&queue);
        outbox.api_keys();
        outbox.tasks();
        outbox.busy(NodeId(3));
        outbox.filled().await;
        let expected = Wakes {
            ready: [(queue.clone(), 3)].into(),
            changed: [queue.clone()].into(),
            gone: [queue].into(),
            api_keys: true,
            tasks: true,
            busy: [NodeId(3)].into(),
            everything: false,
        };
        assert_eq!(outbox.take(), expected);
        assert!(outbox.take().is_empty());
    }
}
