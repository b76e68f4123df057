//! One job at a time: every publish is a commit of its own, against an append and fdatasync of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_store::SystemClock;

use super::super::drive::{Driver, Tally, per_second};
use super::super::raw::RawLog;
use super::super::workload::Workload;
use crate::failure::Failure;
use crate::progress::Progress;

/// Commits of one slice.
const SLICE: u64 = 50;
/// On a slow disk fewer commits say as much: it is the disk that is timed.
const BUDGET: Duration = Duration::from_secs(20);

/// Rates of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single {
    /// Raw appends a second.
    pub raw: f64,
    /// Publishes a second.
    pub store: f64,
}

/// Publishes `jobs` jobs one by one into a new store in `dir`, in alternating slices with raw appends.
pub(crate) fn run(
    dir: &Path,
    raw: &mut RawLog,
    jobs: u64,
    progress: &mut Progress,
) -> Result<Single, Failure> {
    // A repeat has nothing to make durable, so it would flatter the store: here every publish is a new job.
    let mut workload = Workload::after(0)?.without_repeats();
    let driver = Driver::open(dir, Arc::new(SystemClock::new()), workload.queues())?;
    let (mut tally, mut raw_time, mut raw_count) = (Tally::new(), Duration::ZERO, 0);
    progress.start("publishing one at a time", jobs);
    let start = Instant::now();
    while tally.publishes < jobs && start.elapsed() < BUDGET {
        let slice = (0..SLICE).map(|_| workload.batch(1)).collect::<Result<Vec<_>, _>>()?;
        for batch in &slice {
            raw_time += raw.append(batch)?;
            raw_count += 1;
        }
        slice.into_iter().try_for_each(|batch| driver.publish(batch, &mut tally))?;
        progress.set(tally.publishes);
    }
    driver.close()?;
    Ok(Single { raw: per_second(raw_count, raw_time), store: tally.publishes_per_second() })
}
