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

    fn look(&mut self) {
        match rustix::fs::statvfs(&self.dir) {
            Ok(stat) => {
                let free = stat.f_bavail.saturating_mul(stat.f_frsize);
                let low = free < self.reserve;
                if low != self.low {
                    tracing::warn!(free, reserve = self.reserve, low, "free disk space crossed the reserve");
                }
                self.low = low;
            }
            Err(e) => tracing::warn!(error = %e, dir = %self.dir.display(), "free disk space is unknown"),
        }
    }
}
