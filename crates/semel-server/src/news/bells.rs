//! A bell per queue: rung when the queue may have something for a worker.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use semel_core::name::QueueName;
use tokio::sync::Notify;

/// Most sleepers woken by one ring: one for each job of a full commit. Whoever finds nothing goes back to sleep.
const WAKE_MAX: usize = 256;

/// The bell of one queue. A ring that nobody heard is kept for the next who listens.
pub type Bell = Arc<Notify>;

/// The bells of all queues that anybody ever waited for.
#[derive(Debug, Default)]
pub struct Bells(RwLock<HashMap<QueueName, Bell>>);

impl Bells {
    /// The bell of a queue.
    pub fn of(&self, queue: &QueueName) -> Bell {
        if let Some(bell) = self.read().get(queue) {
            return bell.clone();
        }
        let mut all = self.0.write().expect("no one panics while holding the bells");
        all.entry(queue.clone()).or_default().clone()
    }

    /// Wakes up to `jobs` of those who wait for this queue.
    pub fn ring(&self, queue: &QueueName, jobs: usize) {
        if let Some(bell) = self.read().get(queue) {
            (0..jobs.clamp(1, WAKE_MAX)).for_each(|_| bell.notify_one());
        }
    }

    /// Forgets the bell of a queue that is gone, so that names that come and go leave nothing behind.
    pub fn forget(&self, queue: &QueueName) {
        self.ring(queue, WAKE_MAX);
        self.0.write().expect("no one panics while holding the bells").remove(queue);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<QueueName, Bell>> {
        self.0.read().expect("no one panics while holding the bells")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ring_before_anybody_listens_is_heard() {
        let bells = Bells::default();
        let queue = QueueName::try_from("q").unwrap();
        let bell = bells.of(&queue);
        bells.ring(&queue, 1);
        bell.notified().await;
    }

    #[tokio::test]
    async fn as_many_are_woken_as_there_are_jobs() {
        let bells = Bells::default();
        let queue = QueueName::try_from("q").unwrap();
        let bell = bells.of(&queue);
        let mut sleepers: Vec<_> = (0..WAKE_MAX).map(|_| Box::pin(bell.notified())).collect();
        assert!(!sleepers.iter_mut().any(|sleeper| sleeper.as_mut().enable()), "all are asleep");
        bells.ring(&queue, WAKE_MAX - 1);
        let woken =
            sleepers.iter_mut().map(|sleeper| sleeper.as_mut().enable()).filter(|woken| *woken).count();
        assert_eq!(woken, WAKE_MAX - 1);
    }
}
