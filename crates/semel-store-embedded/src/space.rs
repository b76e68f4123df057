//! Free space: new jobs stop while there is still room to finish the old ones.

use std::path::{Path, PathBuf};

/// Commits between two looks at the disk. A look costs a system call; at 256 KiB a job and a thousand jobs a commit the
/// reserve outlasts the gap.
const LOOK_EVERY: u32 = 16;

/// The free space of the disk that a store is on.
#[derive(Debug)]
pub(crate) struct Space {
    dir: PathBuf,
    reserve: u64,
    commits: u32,
    low: bool,
}

impl Space {
    pub(crate) fn new(dir: &Path, reserve: u64) -> Self {
        let mut space = Self { dir: dir.to_owned(), reserve, commits: 0, low: false };
        space.look();
        space
    }

    /// Whether what is left is reserved for settles.
    pub(crate) fn is_low(&self) -> bool {
        self.low
    }

    pub(crate) fn after_commit(&mut self) {
        self.commits += 1;
        // While space is low nothing is published, so commits are few: look each time, to notice the end of it soon.
        if self.low || self.commits >= LOOK_EVERY {
            self.commits = 0;
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
        let Some(free) = self.free() else { return };
        let low = free < self.reserve;
        if low != self.low {
            tracing::warn!(free, reserve = self.reserve, low, "free disk space crossed the reserve");
        }
        self.low = low;
    }
}
