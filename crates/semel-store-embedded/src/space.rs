//! Free space: new jobs stop while there is still room to finish the old ones.

use std::path::{Path, PathBuf};

/// Commits between two looks at the disk, if they are small. A look costs a system call.
const LOOK_EVERY: u32 = 16;

/// Which part of the reserve may be written between two looks.
const LOOK_EVERY_PART: u64 = 16;

/// The free space of the disk that a store is on.
#[derive(Debug)]
pub(crate) struct Space {
    dir: PathBuf,
    reserve: u64,
    /// What the log has and the database has not yet: it will be in both for a while.
    owed: u64,
    /// The same at the last look.
    owed_then: u64,
    commits: u32,
    low: bool,
}

impl Space {
    pub(crate) fn new(dir: &Path, reserve: u64) -> Self {
        let mut space = Self { dir: dir.to_owned(), reserve, owed: 0, owed_then: 0, commits: 0, low: false };
        space.look();
        space
    }

    /// Whether what is left is reserved for settles.
    pub(crate) fn is_low(&self) -> bool {
        self.low
    }

    /// Notes how many bytes are still to be moved from the log into the database.
    pub(crate) fn owes(&mut self, bytes: u64) {
        self.owed = bytes;
        if bytes > self.owed_then.saturating_add(self.reserve / LOOK_EVERY_PART) {
            self.look();
        }
    }

    pub(crate) fn after_commit(&mut self) {
        self.commits += 1;
        // While space is low nothing is published, so commits are few: look each time, to notice the end of it soon.
        if self.low || self.commits >= LOOK_EVERY {
            self.look();
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// The bytes that are free now.
    pub(crate) fn free(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.dir);
        let unknown = |e| tracing::warn!(error = %e, dir = %self.dir.display(), "free disk space is unknown");
        stat.map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)).map_err(unknown).ok()
    }

    fn look(&mut self) {
        (self.commits, self.owed_then) = (0, self.owed);
        let Some(free) = self.free() else { return };
        // What is owed is only known roughly, so that moving it may leave a little more free than was expected. Without a
        // distance between the two limits, publishes would be let in and out on a disk that stays full.
        let again = if self.low { self.reserve / 2 } else { 0 };
        // Whoever wants no reserve gets the disk to its last byte.
        let low = self.reserve > 0 && free < self.reserve.saturating_add(self.owed).saturating_add(again);
        if low != self.low {
            tracing::warn!(free, reserve = self.reserve, low, "free disk space crossed the reserve");
        }
        self.low = low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_has_to_move_is_not_free_and_more_than_the_reserve_has_to_be_free_again() {
        let dir = tempfile::tempdir().unwrap();
        let free = Space::new(dir.path(), 0).free().unwrap();
        let mut space = Space::new(dir.path(), free / 5 * 4);
        assert!(!space.is_low());
        space.owes(free);
        assert!(space.is_low(), "so much is looked at at once");
        space.owes(0);
        space.look();
        assert!(space.is_low(), "a fifth is free beside the reserve, and half of the reserve has to be");
        space.reserve = free / 2;
        space.look();
        assert!(!space.is_low());
    }

    #[test]
    fn without_a_reserve_the_disk_is_used_to_its_last_byte() {
        let dir = tempfile::tempdir().unwrap();
        let mut space = Space::new(dir.path(), 0);
        space.owes(u64::MAX);
        space.look();
        assert!(!space.is_low());
    }
}
