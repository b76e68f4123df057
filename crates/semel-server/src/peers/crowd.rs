//! How many nodes commit often at the same time.
//!
//! A database that many nodes commit to has as many commits at once as one node alone would make, if each makes larger ones
//! instead ([`GroupCommit::share_with`]). An idle neighbour must not cost anything, so it matters who is busy, not who is there.
//!
//! [`GroupCommit::share_with`]: semel_store::GroupCommit::share_with

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use semel_store::shared::{NodeId, Shared};
use tokio::time::Instant;

use crate::service::Service;
use crate::stop::Stop;

/// How many commits a second are often: a twentieth of what keeps a core of the database busy, for a commit costs it about a
/// quarter of a millisecond.
const OFTEN: u128 = 200;

/// A node that becomes busy says so at the next look, and again after so many. Each word is a statement to the database; looks are
/// not, so there may be many: until the others know, all of them make small commits.
const SAID_EVERY: u32 = 10;

/// For how many looks a node that said it is busy is taken to be. One word may be late, or lost.
const LOOKS: u32 = 3 * SAID_EVERY;

/// The other nodes that are busy, and when they last said so.
#[derive(Debug, Default)]
pub(super) struct Crowd(Mutex<BTreeMap<NodeId, Instant>>);

impl Crowd {
    /// Notes who said that it is busy.
    pub(super) fn heard(&self, busy: &BTreeSet<NodeId>) {
        let now = Instant::now();
        self.lock().extend(busy.iter().map(|node| (*node, now)));
    }

    /// How many others are busy: those that said so since then.
    pub(super) fn count(&self, since: Instant) -> usize {
        let mut busy = self.lock();
        busy.retain(|_, said| *said >= since);
        busy.len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Instant>> {
        self.0.lock().expect("nothing panics while the crowd is locked")
    }
}

/// Looks until it is told to stop. A node that hears nobody takes itself to be alone.
pub(super) async fn run(service: Arc<Service>, shared: Arc<dyn Shared>, stop: Stop) {
    let every = service.options.pace.crowd;
    let (mut looked, mut commits) = (Instant::now(), service.commit.commits());
    let mut word = Word::default();
    while !stop.is_stopped() {
        tokio::select! {
            () = stop.stopped() => break,
            () = tokio::time::sleep(every) => {}
        }
        let (then, before) = (looked, commits);
        (looked, commits) = (Instant::now(), service.commit.commits());
        if word.is_due(is_often(commits - before, looked - then, service.commit.shared_with())) {
            service.news.outbox.busy(shared.id());
        }
        let since = looked.checked_sub(every * LOOKS).unwrap_or(looked);
        service.commit.share_with(service.peers.crowd.count(since));
    }
}

/// When a node last said that it is busy.
#[derive(Debug, Default)]
struct Word {
    /// For how many more looks it need not be said.
    holds: u32,
}

impl Word {
    /// Whether to say it at this look.
    fn is_due(&mut self, busy: bool) -> bool {
        self.holds = self.holds.saturating_sub(1);
        let due = busy && self.holds == 0;
        if due {
            self.holds = SAID_EVERY;
        }
        due
    }
}

/// Whether a node that made these commits, beside so many `others` that are busy, commits often. It makes commits as many times as
/// large for their sake, and fewer: if it fell silent for that they would make smaller ones again.
fn is_often(commits: u64, span: Duration, others: usize) -> bool {
    let alone = u128::from(commits).saturating_mul(others as u128 + 1);
    commits > 0 && alone * 1000 >= OFTEN * span.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_not_said_so_for_a_while_is_busy_no_more() {
        let crowd = Crowd::default();
        let [one, other] = [NodeId(1), NodeId(2)];
        let long_ago = Instant::now();
        crowd.heard(&[one, other].into());
        tokio::time::advance(Duration::from_secs(1)).await;
        crowd.heard(&[other].into());
        assert_eq!(crowd.count(long_ago), 2);
        assert_eq!(crowd.count(Instant::now()), 1);
        assert_eq!(crowd.count(long_ago), 1, "whom it forgot it forgot");
    }

    #[test]
    fn who_becomes_busy_says_so_at_once_and_then_once_in_a_while() {
        let mut word = Word::default();
        assert!(!word.is_due(false));
        let said = (0..2 * SAID_EVERY).filter(|_| word.is_due(true)).count();
        assert_eq!(said, 2, "at the first look, and again when the word is old");
        assert!((0..SAID_EVERY).all(|_| !word.is_due(false)), "who rests says nothing");
        assert!(word.is_due(true), "and then at once");
        assert!(!word.is_due(false) && !word.is_due(true), "a short rest makes no new word");
    }

    #[test]
    fn often_is_so_many_a_second() {
        let second = Duration::from_secs(1);
        assert!(is_often(200, second, 0) && is_often(1, second / 200, 0));
        assert!(!is_often(199, second, 0) && !is_often(200, 2 * second, 0));
        assert!(!is_often(0, Duration::ZERO, 0));
    }

    #[test]
    fn who_makes_larger_commits_for_others_is_as_busy_as_before() {
        let second = Duration::from_secs(1);
        assert!(is_often(600, second, 0), "three times as many commits as are often");
        assert!(is_often(200, second, 2), "the same commands in commits three times as large");
        assert!(is_often(67, second, 2) && !is_often(66, second, 2));
    }
}
