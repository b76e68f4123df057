//! Waiting for the store's time.
//!
//! The store has a clock, and only that clock decides what is due. Whoever waits for it waits here, so that a test can
//! move time on and the server follows at once, without a sleep anywhere.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, ManualClock, Store};
use tokio::sync::watch;

/// Longest sleep before the store's clock is asked again. The clock may run a tenth faster than the timer does, and on a
/// shared store it is another machine's.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Something that wakes when the store's clock has come to a time.
#[async_trait]
pub trait Alarm: Send + Sync + Debug + 'static {
    /// Returns when the store's clock is at `at` or past it.
    async fn until(&self, at: Timestamp);
}

/// The alarm of a server that runs: it sleeps.
pub struct Sleeper {
    store: Arc<dyn Store>,
}

impl Sleeper {
    /// An alarm for the clock of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

impl Debug for Sleeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleeper").finish_non_exhaustive()
    }
}

#[async_trait]
impl Alarm for Sleeper {
    async fn until(&self, at: Timestamp) {
        loop {
            let left = at.since(self.store.now());
            if left == Millis::ZERO {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left.millis()).min(LONGEST_SLEEP)).await;
        }
    }
}

/// The alarm of a test: time moves when the test says so, and everybody who waits for it is woken.
#[derive(Debug)]
pub struct ManualAlarm {
    clock: Arc<ManualClock>,
    moved: watch::Sender<()>,
}

impl ManualAlarm {
    /// An alarm for a clock that only this alarm moves.
    pub fn new(clock: Arc<ManualClock>) -> Self {
        Self { clock, moved: watch::Sender::new(()) }
    }

    /// Moves time on.
    pub fn advance(&self, span: Millis) {
        self.clock.advance(span);
        self.moved.send_replace(());
    }
}

#[async_trait]
impl Alarm for ManualAlarm {
    async fn until(&self, at: Timestamp) {
        let mut moved = self.moved.subscribe();
        while self.clock.now() < at {
            // The sender lives as long as `self`, so this cannot fail.
            if moved.changed().await.is_err() {
                return;
            }
        }
    }
}
