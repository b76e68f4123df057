//! The word that the server is to stop, for every connection.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set once, when no more is accepted. Asking costs one load, so that a connection can ask at every turn.
#[derive(Debug, Default)]
pub(super) struct Closing {
    set: AtomicBool,
    bell: Notify,
}

impl Closing {
    /// Sets it, and wakes whoever waits for it.
    pub(super) fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// Whether it is set.
    pub(super) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Returns when it is set.
    pub(super) async fn wait(&self) {
        let mut rung = pin!(self.bell.notified());
        // In line for the bell before the look at the flag: a set in between is then not missed.
        rung.as_mut().enable();
        if !self.is_set() {
            rung.await;
        }
    }
}
