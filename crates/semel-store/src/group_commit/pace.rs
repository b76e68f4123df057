//! How fast commits go, so that a caller who is turned away is told when it is worth coming back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest wait a caller is told: anything below is over before its answer has crossed a network.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(10);
/// Longest wait a caller is told. A disk that is stuck for longer may recover at any moment, and half a minute is
/// about as long as people leave a client waiting.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Each commit moves the average by this part of its difference: about the last dozen commits count.
const SMOOTHING: u64 = 8;

/// Measures commits. Only the driver writes, so plain loads and stores are enough.
#[derive(Debug)]
pub(super) struct Pace {
    origin: Instant,
    /// Microseconds that a commit takes, smoothed; zero before the first.
    average: AtomicU64,
    /// When the newest commit began, in microseconds since `origin`.
    began: AtomicU64,
    /// How many have begun.
    commits: AtomicU64,
}

impl Pace {
    pub(super) fn new() -> Self {
        let (average, began, commits) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { origin: Instant::now(), average, began, commits }
    }

    /// Notes that a commit begins; what is returned goes to [`Pace::ends`].
    pub(super) fn begins(&self) -> u64 {
        let now = self.now();
        self.began.store(now, Ordering::Relaxed);
        self.commits.store(self.commits() + 1, Ordering::Relaxed);
        now
    }

    /// How many commits have begun.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Notes that a commit is through.
    pub(super) fn ends(&self, began: u64) {
        let took = self.now().saturating_sub(began);
        let average = smoothed(self.average.load(Ordering::Relaxed), took);
        self.average.store(average, Ordering::Relaxed);
    }

    /// When a caller who found `batches` ahead of it should come back.
    ///
    /// The queue is full, so a commit is on its way. If that one already takes longer than usual, it is the better
    /// measure: a stuck disk must not be advertised at the pace of yesterday.
    pub(super) fn retry_after(&self, batches: usize, in_flight: usize) -> Duration {
        let current = self.now().saturating_sub(self.began.load(Ordering::Relaxed));
        let commit = current.max(self.average.load(Ordering::Relaxed));
        estimate(Duration::from_micros(commit), batches, in_flight)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn smoothed(average: u64, took: u64) -> u64 {
    if average == 0 { took } else { average - average / SMOOTHING + took / SMOOTHING }
}

fn estimate(commit: Duration, batches: usize, in_flight: usize) -> Duration {
    let rounds = u32::try_from(batches.div_ceil(in_flight)).unwrap_or(u32::MAX);
    commit.saturating_mul(rounds).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_time_that_the_batches_ahead_will_take() {
        let commit = Duration::from_millis(20);
        assert_eq!(estimate(commit, 16, 1), Duration::from_millis(320));
        assert_eq!(estimate(commit, 16, 4), Duration::from_millis(80));
        assert_eq!(estimate(commit, 17, 4), Duration::from_millis(100));
    }

    #[test]
    fn the_wait_is_never_absurd() {
        assert_eq!(estimate(Duration::ZERO, 1, 1), RETRY_AFTER_MIN);
        assert_eq!(estimate(Duration::from_secs(3600), usize::MAX, 1), RETRY_AFTER_MAX);
    }

    #[test]
    fn the_average_follows_the_commits_and_forgets_a_single_slow_one() {
        let steady = (0..100).fold(0, |average, _| smoothed(average, 8000));
        assert_eq!(steady, 8000);
        let after_a_stall = smoothed(steady, 80_000);
        assert_eq!(after_a_stall, 17_000);
        let later = (0..30).fold(after_a_stall, |average, _| smoothed(average, 8000));
        assert!((8000..8300).contains(&later), "{later}");
    }
}
