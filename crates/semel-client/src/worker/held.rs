//! The deliveries that a worker has in hand.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// What is in hand, by lease.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashMap<String, Work>>);

#[derive(Debug)]
struct Work {
    job: String,
    handler: AbortHandle,
}

impl Held {
    pub(super) fn add(&self, job: &str, lease: &str, handler: AbortHandle) {
        self.lock().insert(lease.to_owned(), Work { job: job.to_owned(), handler });
    }

    /// Gives a delivery out of hand; says whether it still was.
    pub(super) fn remove(&self, lease: &str) -> bool {
        self.lock().remove(lease).is_some()
    }

    /// A delivery is somebody else's now: whatever works on it breaks off. Says whether it was in hand.
    pub(super) fn lose(&self, lease: &str) -> bool {
        let lost = self.lock().remove(lease);
        lost.inspect(|work| work.handler.abort()).is_some()
    }

    /// Breaks off all work. What is in hand stays so, to be put back.
    pub(super) fn break_off(&self) {
        self.lock().values().for_each(|work| work.handler.abort());
    }

    /// Jobs and leases of all that is in hand.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        self.lock().iter().map(|(lease, work)| (work.job.clone(), lease.clone())).collect()
    }

    /// Nothing panics while it holds the lock, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
