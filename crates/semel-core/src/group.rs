//! Groups: order and fairness among the jobs of one queue that belong together.
//!
//! A group only gates when its queue has a group concurrency at the time of the publish. Then at most that many jobs
//! of the group are *open* at once: eligible, leased, or waiting out a retry or a delay. Jobs of a group open in publish
//! order, and the next one opens when an open one finishes (completed, dead or cancelled). A replayed dead letter joins
//! the end of its group again.
//!
//! A job that waits out a retry keeps its place. With a limit of one that makes the order strict: nothing overtakes a
//! job that failed, until it has succeeded or is dead.

/// Whether one more job of a group may open, when `open` of them are open already.
///
/// A limit that was lowered closes no job that is open; the group just opens no other until enough have finished.
pub fn opens(open: u32, limit: u32) -> bool {
    open < limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_opens_jobs_up_to_its_limit() {
        assert!(opens(0, 1));
        assert!(!opens(1, 1), "a limit of one is strict order");
        assert!(opens(2, 3));
        assert!(!opens(5, 3), "a lowered limit waits for the group to drain");
    }
}
