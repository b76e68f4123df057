//! Queues that are left alone for a while, because the server could not take their jobs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first pause of a queue, after the client has tried for its whole deadline.
const FIRST: Duration = Duration::from_millis(500);

/// The longest pause: a server that is back is noticed within this time.
const LONGEST: Duration = Duration::from_secs(15);

/// The queues that are held, each by itself: one that may not be published to holds up no other.
#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<HashMap<String, Hold>>);

#[derive(Debug, Clone, Copy)]
struct Hold {
    until: Instant,
    pause: Duration,
}

impl Holds {
    /// Leaves a queue alone, longer each time, or as long as the server asked for.
    pub(super) fn hold(&self, queue: &str, asked: Option<Duration>) -> Duration {
        let mut all = self.lock();
        let before = all.get(queue).map(|hold| hold.pause);
        let pause = before.map_or(FIRST, |pause| pause.saturating_mul(2)).min(LONGEST);
        let wait = asked.map_or(pause, |asked| asked.clamp(pause, LONGEST));
        all.insert(queue.to_owned(), Hold { until: Instant::now() + wait, pause });
        wait
    }

    /// A queue takes jobs again.
    pub(super) fn release(&self, queue: &str) {
        self.lock().remove(queue);
    }

    /// The queues that are to be left alone now.
    pub(super) fn held(&self) -> Vec<String> {
        let now = Instant::now();
        self.lock().iter().filter(|(_, hold)| hold.until > now).map(|(queue, _)| queue.clone()).collect()
    }

    /// How long until the first of them is to be tried again.
    pub(super) fn next(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = |hold: &Hold| hold.until.saturating_duration_since(now);
        self.lock().values().map(left).filter(|left| !left.is_zero()).min()
    }

    /// Nothing panics while it holds the lock, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_left_alone_for_longer_each_time_and_alone() {
        let holds = Holds::default();
        assert_eq!(holds.hold("a", None), FIRST);
        assert_eq!(holds.hold("a", None), FIRST * 2);
        assert_eq!(holds.hold("b", Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(holds.hold("c", Some(Duration::MAX)), LONGEST);
        let mut held = holds.held();
        held.sort();
        assert_eq!(held, ["a", "b", "c"]);
        holds.release("a");
        assert_eq!(holds.hold("a", None), FIRST, "it begins again");
    }
}
