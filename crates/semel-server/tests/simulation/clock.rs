//! The time of a simulation, as a store's clock.

use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::time::{Millis, Timestamp};
use semel_store::Clock;

/// Where every simulation starts: 2026-11-15T12:00:00Z.
const START: Timestamp = Timestamp::from_millis(1_794_744_000_000);

/// Simulated time. Hosts take turns of one tick each, so the one whose turn it is may be a tick ahead of the others: the
/// clock shows the furthest of them, and so never goes back.
#[derive(Debug, Default)]
pub(crate) struct SimClock {
    furthest: AtomicU64,
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        // Outside a host's turn there is no simulated time: then it is what it was last.
        let passed = turmoil::sim_elapsed().map_or(0, |passed| u64::try_from(passed.as_millis()).unwrap());
        let furthest = self.furthest.fetch_max(passed, Ordering::SeqCst).max(passed);
        START.plus(Millis::from_millis(furthest))
    }
}
