//! How long the last commits took.

use std::time::Duration;

use semel_core::time::{Millis, Timestamp};

/// Commits that are remembered: 16 KiB.
const REMEMBERED: usize = 1024;

/// How long one counts.
const WINDOW: Millis = Millis::from_secs(600);

/// From how many commits on the slowest in a hundred is more than an accident.
const ENOUGH: usize = 100;

/// The last commits, in no order.
#[derive(Debug, Default)]
pub(super) struct Commits {
    ring: Vec<(Timestamp, u32)>,
    next: usize,
}

/// What they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) count: usize,
    pub(super) p50: Millis,
    pub(super) p99: Millis,
}

impl Commits {
    /// Notes how long one commit took.
    pub(super) fn note(&mut self, took: Duration, now: Timestamp) {
        let entry = (now, u32::try_from(took.as_millis()).unwrap_or(u32::MAX));
        if self.ring.len() < REMEMBERED {
            self.ring.push(entry);
        } else {
            self.ring[self.next] = entry;
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// What recent commits took, if there are enough to tell.
    pub(super) fn pace(&self, now: Timestamp) -> Option<Pace> {
        let recent = self.ring.iter().filter(|(at, _)| now.since(*at) <= WINDOW);
        let mut took: Vec<u32> = recent.map(|(_, took)| *took).collect();
        took.sort_unstable();
        let at = |hundredth: usize| Millis::from_millis(u64::from(took[(took.len() - 1) * hundredth / 100]));
        (took.len() >= ENOUGH).then(|| Pace { count: took.len(), p50: at(50), p99: at(99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

    #[test]
    fn one_slow_commit_in_a_hundred_shows_and_old_ones_do_not() {
        let mut commits = Commits::default();
        for n in 0..REMEMBERED as u64 * 2 {
            commits.note(Duration::from_millis(if n % 50 == 0 { 900 } else { 2 }), NOW);
        }
        let expected = Pace { count: REMEMBERED, p50: Millis::from_millis(2), p99: Millis::from_millis(900) };
        assert_eq!(commits.pace(NOW), Some(expected));
        let later = NOW.plus(WINDOW).plus(Millis::from_secs(1));
        assert_eq!(commits.pace(later), None);
        (0..ENOUGH - 1).for_each(|_| commits.note(Duration::ZERO, later));
        assert_eq!(commits.pace(later), None, "too few to tell");
        commits.note(Duration::ZERO, later);
        assert_eq!(commits.pace(later).map(|pace| pace.p99), Some(Millis::ZERO));
    }
}
