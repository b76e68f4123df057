//! The time of the store: the database's, for all nodes alike, or one that was given to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use semel_core::time::Timestamp;
use semel_store::Clock;

use crate::row::time;

/// The database's time in milliseconds, for a statement. It is volatile, so a condition that wants an index needs it in a
/// sub-select: `(SELECT ...)`.
macro_rules! database_now {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
pub(crate) use database_now;

/// What time it is.
#[derive(Debug)]
pub(crate) enum StoreClock {
    /// As a test says.
    Given(Arc<dyn Clock>),
    /// As the database says.
    Database(Followed),
}

/// The database's time between two looks at it: how far it is ahead of this process's own monotonic clock.
#[derive(Debug)]
pub(crate) struct Followed {
    start: Instant,
    ahead: AtomicI64,
    /// The latest time that was told, because none may be told after it that is earlier.
    told: AtomicU64,
}

impl StoreClock {
    /// The clock that was given, or one that follows the database's.
    pub(crate) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        given.map_or_else(|| Self::Database(Followed::new()), Self::Given)
    }

    /// The time a transaction decides by, given what the database's clock said in it. It is learned from, too.
    pub(crate) fn decides(&self, database: i64) -> Timestamp {
        match self {
            Self::Given(clock) => clock.now(),
            Self::Database(followed) => {
                followed.learn(database);
                time(database)
            }
        }
    }

    /// The time to put into a statement in the place of the database's own; nothing if that is what counts.
    pub(crate) fn instead(&self) -> Option<i64> {
        match self {
            Self::Given(clock) => Some(crate::row::sql_time(clock.now())),
            Self::Database(_) => None,
        }
    }

    /// What the database's clock will say when it is asked next, as far as is known here: it may be set back.
    pub(crate) fn expected(&self) -> Timestamp {
        match self {
            Self::Given(clock) => clock.now(),
            Self::Database(followed) => followed.expected(),
        }
    }

    /// What time it is, as far as is known here.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Given(clock) => clock.now(),
            Self::Database(followed) => followed.now(),
        }
    }
}

impl Followed {
    fn new() -> Self {
        Self { start: Instant::now(), ahead: AtomicI64::new(0), told: AtomicU64::new(0) }
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The answer is as old as its way here, so this clock is behind by that, and never ahead.
    fn learn(&self, database: i64) {
        self.ahead.store(database.saturating_sub(self.elapsed()), Ordering::Release);
    }

    fn expected(&self) -> Timestamp {
        time(self.ahead.load(Ordering::Acquire).saturating_add(self.elapsed()))
    }

    fn now(&self) -> Timestamp {
        let here = self.expected().millis();
        let before = self.told.fetch_max(here, Ordering::AcqRel);
        Timestamp::from_millis(here.max(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_followed_and_time_never_goes_back() {
        let clock = StoreClock::new(None);
        assert_eq!(clock.decides(1_800_000_000_000), time(1_800_000_000_000));
        let first = clock.now();
        assert!(first >= time(1_800_000_000_000), "{first:?}");
        assert_eq!(
            clock.decides(1_700_000_000_000),
            time(1_700_000_000_000),
            "a transaction goes by its own"
        );
        assert!(clock.now() >= first);
        clock.decides(1_900_000_000_000);
        assert!(clock.now() >= time(1_900_000_000_000));
        assert_eq!(clock.instead(), None);
    }
}
