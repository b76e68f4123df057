//! Times of the store's clock. The worker's clock is never asked.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment by the store's clock: milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// As stores keep it.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// For showing it. Comparing it with this machine's clock compares two clocks.
    pub fn as_system_time(self) -> SystemTime {
        let span = Duration::from_millis(self.0.unsigned_abs());
        if self.0 < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
    }

    /// That much later, or the end of time.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// How long after `earlier` this is; nothing, if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms since 1970", self.0)
    }
}

/// A duration as stores take it: whole milliseconds, a started one counts.
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// A moment to come, with what was left until then when the store answered.
///
/// A worker waits for `remaining`, on its own monotonic clock; `at` is by the store's clock, which may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// By the store's clock.
    pub at: Moment,
    /// From the store's answer on.
    pub remaining: Duration,
}

impl Until {
    /// A moment as seen from `now`, both by the store's clock.
    pub fn seen(at: Moment, now: Moment) -> Self {
        Self { at, remaining: at.since(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_millisecond_counts() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::MAX), i64::MAX);
    }

    #[test]
    fn what_has_passed_has_nothing_left() {
        let (early, late) = (Moment::from_millis(10), Moment::from_millis(35));
        assert_eq!(Until::seen(late, early).remaining, Duration::from_millis(25));
        assert_eq!(Until::seen(early, late).remaining, Duration::ZERO);
    }
}
