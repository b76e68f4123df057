//! Where the search for ready jobs begins.
//!
//! A job that goes out leaves its place in the index of ready jobs behind, and so does one that ends; only a vacuum clears them
//! away. A lease that began at the front of a busy queue would walk past all of those places, ever longer until the next vacuum. So it
//! begins behind the jobs that went out before it.
//!
//! A job may appear in front of that: a lease was taken back, an application published in a transaction that lasted. This node knows
//! what it does itself ([`Marks::appeared`]). For what others do a queue is searched from the front once a second, and whenever a
//! lease would otherwise find nothing. And what became due just now is never left behind: it may still be on its way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use semel_core::time::Timestamp;

use crate::row::sql_time;

/// How often a busy queue is searched from the front: what waits in front waits no longer than that, and walking past some
/// thousand places once a second costs nothing that counts.
const FROM_THE_FRONT: Duration = Duration::from_secs(1);

/// Jobs that became due so recently may still be on their way into the table: a publish is decided by a time that may be a second
/// old, and a commit takes its time.
const ON_ITS_WAY: i64 = 3000;

/// A place in the order of ready jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its priority, lowest first.
    pub(super) rank: i16,
    /// Since when it is due.
    pub(super) due: i64,
    /// The job.
    pub(super) id: i64,
}

/// In front of every job. Nothing is skipped of other ranks than a mark's.
const FRONT: Place = Place { rank: 0, due: i64::MIN, id: i64::MIN };

/// A search that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// Jobs of its rank up to this place are not looked at.
    pub(super) behind: Place,
    /// How many jobs had appeared in front by then.
    appeared: u64,
}

impl Search {
    /// Whether it looks at every job that is ready.
    pub(super) fn is_at_the_front(&self) -> bool {
        self.behind == FRONT
    }
}

/// The marks of the queues, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<i32, Mark>>);

#[derive(Debug)]
struct Mark {
    place: Place,
    /// When it was last searched from the front.
    front_at: Instant,
    /// How many times jobs appeared in front of what was searched, or perhaps did.
    appeared: u64,
}

impl Marks {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Mark>> {
        self.0.lock().expect("the lock is never held across a panic")
    }

    /// Begins a search behind what went out, or at the front if it is time for that.
    pub(super) fn begin(&self, queue: i32, now: Instant) -> Search {
        let mut marks = self.lock();
        let mark = marks.entry(queue).or_insert(Mark { place: FRONT, front_at: now, appeared: 0 });
        if now.duration_since(mark.front_at) >= FROM_THE_FRONT {
            mark.front_at = now;
            return Search { behind: FRONT, appeared: mark.appeared };
        }
        Search { behind: mark.place, appeared: mark.appeared }
    }

    /// Begins a search at the front.
    pub(super) fn begin_at_the_front(&self, queue: i32, now: Instant) -> Search {
        let mut marks = self.lock();
        let mark = marks.entry(queue).or_insert(Mark { place: FRONT, front_at: now, appeared: 0 });
        mark.front_at = now;
        Search { behind: FRONT, appeared: mark.appeared }
    }

    /// Ends a search that was made at `now`, by the database's clock. It took what was ready up to `last`; if that was less than it
    /// wanted, it took all there was.
    pub(super) fn ended(&self, queue: i32, search: Search, last: Option<Place>, all: bool, now: Timestamp) {
        let rank = last.map_or(search.behind.rank, |last| last.rank);
        let certain = Place { rank, due: certain_until(now), id: i64::MIN };
        let place = match last {
            Some(last) if !all && (last.due, last.id) < (certain.due, certain.id) => last,
            _ => certain,
        };
        if let Some(mark) = self.lock().get_mut(&queue)
            && mark.appeared == search.appeared
        {
            mark.place = place;
        }
    }

    /// Takes down that this node made a job ready, `now`.
    pub(crate) fn appeared(&self, queue: i32, due: i64, now: Timestamp) {
        if due <= certain_until(now) {
            self.forget(queue);
        }
    }

    /// Has the next search begin at the front: jobs became ready, who knows where.
    pub(crate) fn forget(&self, queue: i32) {
        if let Some(mark) = self.lock().get_mut(&queue) {
            // A search that is under way may have passed it, and says how far it came only when it ends.
            mark.appeared += 1;
            mark.place = FRONT;
        }
    }
}

/// What became due after this may still be on its way.
fn certain_until(now: Timestamp) -> i64 {
    sql_time(now) - ON_ITS_WAY
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: i32 = 7;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn place(due: i64, id: i64) -> Place {
        Place { rank: 0, due, id }
    }

    /// Marks, and a moment shortly after the first search from the front.
    fn marks() -> (Marks, Instant) {
        let (marks, now) = (Marks::default(), Instant::now());
        assert_eq!(marks.begin(QUEUE, now).behind, FRONT);
        (marks, now)
    }

    /// A search from beginning to end.
    fn search(marks: &Marks, last: Option<Place>, all: bool, now: Instant) {
        let search = marks.begin(QUEUE, now);
        marks.ended(QUEUE, search, last, all, at(1_000_000));
    }

    #[test]
    fn a_search_begins_behind_what_went_out_and_once_a_second_at_the_front() {
        let (marks, now) = marks();
        search(&marks, Some(place(1000, 5)), false, now);
        assert_eq!(marks.begin(QUEUE, now).behind, place(1000, 5));
        assert_eq!(marks.begin(8, now).behind, FRONT, "another queue has a place of its own");
        let later = now + FROM_THE_FRONT;
        assert_eq!(marks.begin(QUEUE, later).behind, FRONT);
        assert_eq!(marks.begin(QUEUE, later).behind, place(1000, 5), "one of many is enough");
        search(&marks, Some(place(2000, 6)), false, later);
        assert_eq!(marks.begin_at_the_front(QUEUE, later).behind, FRONT, "it is asked for");
        assert_eq!(marks.begin(QUEUE, later + FROM_THE_FRONT / 2).behind, place(2000, 6));
    }

    #[test]
    fn what_may_be_on_its_way_is_never_left_behind() {
        let (marks, now) = marks();
        let certain = place(1_000_000 - ON_ITS_WAY, i64::MIN);
        search(&marks, Some(place(999_999, 5)), false, now);
        assert_eq!(marks.begin(QUEUE, now).behind, certain, "however far it came");
        search(&marks, Some(place(1000, 5)), true, now);
        assert_eq!(marks.begin(QUEUE, now).behind, certain, "that was all there was");
        search(&marks, None, true, now);
        assert_eq!(marks.begin(QUEUE, now).behind, certain, "there was nothing");
    }

    #[test]
    fn a_job_that_appears_in_front_is_not_passed_by_nor_by_who_passed_it_already() {
        let (marks, now) = marks();
        search(&marks, Some(place(1000, 5)), false, now);
        let under_way = marks.begin(QUEUE, now);
        marks.appeared(QUEUE, 999, at(1_000_000));
        assert_eq!(marks.begin(QUEUE, now).behind, FRONT);
        marks.ended(QUEUE, under_way, Some(place(3000, 8)), false, at(1_000_000));
        assert_eq!(marks.begin(QUEUE, now).behind, FRONT);
        search(&marks, Some(place(1000, 5)), false, now);
        marks.appeared(QUEUE, 1_000_000, at(1_000_000));
        assert_eq!(marks.begin(QUEUE, now).behind, place(1000, 5), "a new job is behind it");
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed_at_the_next_look_from_the_front() {
        let (marks, now) = marks();
        search(&marks, None, true, now);
        let later = now + FROM_THE_FRONT;
        let from_the_front = marks.begin(QUEUE, later);
        assert_eq!(from_the_front.behind, FRONT);
        marks.ended(QUEUE, from_the_front, Some(place(500, 9)), false, at(4000));
        assert_eq!(marks.begin(QUEUE, later).behind, place(500, 9));
    }
}
