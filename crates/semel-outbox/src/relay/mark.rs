//! Where the next claim begins.
//!
//! Lanes claim one after the other. A claim that began at the first row would come past all that the other lanes hold, and
//! would have to look at each of those rows to find that it is locked, which takes longer than to claim one. So a claim begins
//! behind the one before it.
//!
//! Rows may appear in front of that: a transaction committed later than one that took higher numbers, or a relay gave rows
//! back. They are found by claims that begin at the first row: one that would otherwise find nothing, the next one after the
//! end was reached, and now and then in any case, because a busy outbox has no end.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many claims in a row may begin behind one another. What they save is most of the wading, and what waits for them waits
/// for a fraction of a second.
const IN_A_ROW: u32 = 16;

/// Behind this is every row there is.
pub(super) const FIRST: i64 = i64::MIN;

/// The mark that all lanes of a relay share.
#[derive(Debug, Default)]
pub(super) struct Mark(Mutex<Last>);

#[derive(Debug)]
struct Last {
    /// The highest row that was claimed since the last claim that began at the first.
    row: i64,
    /// How many claims began since.
    claims: u32,
}

impl Default for Last {
    fn default() -> Self {
        Self { row: FIRST, claims: 0 }
    }
}

impl Mark {
    /// The row behind which a claim that begins now is to look.
    pub(super) fn begin(&self) -> i64 {
        let mut last = self.lock();
        if last.claims >= IN_A_ROW {
            *last = Last::default();
        }
        last.claims += 1;
        last.row
    }

    /// Notes what a claim ended with: the last of its rows, if there were as many as it wanted. Otherwise it reached the end.
    pub(super) fn ended(&self, row: Option<i64>) {
        let mut last = self.lock();
        match row {
            Some(row) => last.row = last.row.max(row),
            None => *last = Last::default(),
        }
    }

    /// Nothing panics while it holds the lock, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_begins_behind_the_one_before_it_until_the_end_is_reached() {
        let mark = Mark::default();
        assert_eq!(mark.begin(), FIRST);
        mark.ended(Some(2000));
        mark.ended(Some(1000));
        assert_eq!(mark.begin(), 2000, "lanes end in any order");
        mark.ended(None);
        assert_eq!(mark.begin(), FIRST);
    }

    #[test]
    fn what_is_in_front_is_looked_for_however_long_the_outbox_is() {
        let mark = Mark::default();
        let began = |row: u32| {
            let began = mark.begin();
            mark.ended(Some(row.into()));
            began
        };
        let at_the_first = (1..=4 * IN_A_ROW).filter(|row| began(*row) == FIRST).count();
        assert_eq!(at_the_first, 4);
    }
}
