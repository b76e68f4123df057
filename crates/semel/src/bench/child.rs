//! The benchmark's own child processes: one that publishes until it is killed, one that opens what it left behind.
//!
//! Both are this program again (`semel child …`), so that memory and start-up are those of a fresh process.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use semel_store::SystemClock;
use serde::{Deserialize, Serialize};

use super::drive::{Driver, Tally};
use super::procfs::{self, Memory};
use super::workload::{BATCH, Workload};
use crate::failure::Failure;
use crate::kin::{self, Kin};
use crate::progress::Progress;

/// Numbers that an opening child may use up, the publisher's last, unanswered batch included.
pub(crate) const NUMBERS_PER_OPEN: u64 = 4 * BATCH as u64;

/// What the publishing child says after each commit.
#[derive(Debug, Serialize, Deserialize)]
struct Acknowledged {
    /// How many different jobs have been handed out and answered.
    published: u64,
}

/// How the publishing child ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Killed {
    /// How many different jobs had been answered.
    pub acknowledged: u64,
    /// Its memory just before.
    pub memory: Option<Memory>,
}

/// How the opening child fared.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Seconds until the store was open.
    pub open_seconds: f64,
    /// Seconds until its first publish and lease were answered, the opening included.
    pub answered_seconds: f64,
    /// Whether the last job that was acknowledged before the kill is there.
    pub found: bool,
}

/// Starts a child that publishes, waits until it has published `jobs` jobs, and kills it without warning.
pub(crate) fn publish_until_killed(
    dir: &Path,
    published: u64,
    jobs: u64,
    progress: &mut Progress,
) -> Result<Killed, Failure> {
    let mut child = Kin::spawn(&["bench-publish", &published.to_string()], dir)?;
    let mut acknowledged = published;
    while acknowledged < published + jobs {
        let line: Acknowledged =
            child.next_line()?.ok_or_else(|| Failure::Broken("the publishing child ended early".into()))?;
        acknowledged = line.published;
        progress.set(acknowledged - published);
    }
    let memory = procfs::memory_of(child.pid());
    child.kill()?;
    while let Some(line) = child.next_line::<Acknowledged>()? {
        acknowledged = line.published;
    }
    Ok(Killed { acknowledged, memory })
}

/// The publishing child: publishes until it is killed, or nobody listens any more.
pub(crate) fn be_publisher(dir: &Path, published: u64) -> Result<(), Failure> {
    let mut workload = Workload::after(published)?;
    let driver = Driver::open(dir, Arc::new(SystemClock::new()), workload.queues())?;
    loop {
        driver.publish(workload.batch(BATCH)?, &mut Tally::new())?;
        kin::say(&Acknowledged { published: workload.published() })?;
    }
}

/// Starts a child that opens the store, and returns what it measured.
pub(crate) fn open(dir: &Path, killed: &Killed) -> Result<Opened, Failure> {
    let mut child = Kin::spawn(&["bench-open", &killed.acknowledged.to_string()], dir)?;
    let opened: Opened =
        child.next_line()?.ok_or_else(|| Failure::Broken("the store did not open after a kill".into()))?;
    child.wait()?;
    if !opened.found {
        return Err(Failure::Broken(format!(
            "job {} was acknowledged before the kill and is gone",
            killed.acknowledged - 1
        )));
    }
    Ok(opened)
}

/// The opening child: opens the store and uses it once.
pub(crate) fn be_opener(dir: &Path, acknowledged: u64) -> Result<(), Failure> {
    let mut workload = Workload::after(acknowledged + BATCH as u64)?.without_repeats();
    let last = workload.key(acknowledged.saturating_sub(1))?;
    let batch = workload.batch(1)?;
    let start = Instant::now();
    let driver = Driver::open(dir, Arc::new(SystemClock::new()), &[])?;
    let open_seconds = start.elapsed().as_secs_f64();
    driver.publish(batch, &mut Tally::new())?;
    driver.lease(&workload.queues()[0], 1)?;
    let answered_seconds = start.elapsed().as_secs_f64();
    let found = driver.has_key(&last)?;
    driver.close()?;
    kin::say(&Opened { open_seconds, answered_seconds, found })
}

/// Asks the kernel to forget what it holds of the files in `dir`, so that the next reader waits for the disk.
pub(crate) fn drop_page_cache(dir: &Path) -> Result<(), Failure> {
    let failed = |e| Failure::Io { what: format!("drop the page cache of {}", dir.display()), source: e };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let file = File::open(entry.map_err(failed)?.path()).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            file.sync_all().map_err(failed)?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed(e.into()))?;
        }
    }
    Ok(())
}
