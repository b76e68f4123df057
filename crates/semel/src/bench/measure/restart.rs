//! Memory of a process with a full store, and how fast another one is back after it was killed.

use std::path::Path;

use super::super::child::{self, Opened};
use super::super::procfs::Memory;
use crate::failure::Failure;
use crate::progress::Progress;

/// What one round found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    /// Memory of the publishing process just before it was killed, if the kernel tells.
    pub memory: Option<Memory>,
    /// How the next process fared.
    pub opened: Opened,
    /// How many different jobs have been handed out now.
    pub published: u64,
}

/// Whether the directory is in the page cache when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// As a killed process leaves it.
    Warm,
    /// As a machine that was restarted has it: dropped for every file of the store.
    Cold,
}

/// Has a child publish `jobs` jobs onto `published` ones, kills it in the middle of the next, and times another's start.
pub(crate) fn run(
    dir: &Path,
    published: u64,
    jobs: u64,
    cache: PageCache,
    progress: &mut Progress,
) -> Result<Restart, Failure> {
    progress.start("a process publishes, is killed", jobs);
    let killed = child::publish_until_killed(dir, published, jobs, progress)?;
    if cache == PageCache::Cold {
        child::drop_page_cache(dir)?;
    }
    progress.start("another opens the store", 0);
    let opened = child::open(dir, &killed)?;
    // The last batch was perhaps stored and certainly not answered: its numbers are left out of what comes next.
    Ok(Restart { memory: killed.memory, opened, published: killed.acknowledged + child::NUMBERS_PER_OPEN })
}
