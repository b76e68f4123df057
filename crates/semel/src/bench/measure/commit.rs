//! Publishing at full speed with all keys present: how long commits take, and how much reaches the disk.

use std::time::Instant;

use super::super::drive::{Driver, Tally, per_second};
use super::super::procfs;
use super::super::workload::{BATCH, Workload};
use crate::failure::Failure;
use crate::progress::Progress;

/// What one round found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commits {
    /// Half of the commits were at least this fast, in milliseconds.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// All of them.
    pub max: f64,
    /// Bytes that reached the disk per new job, if the kernel tells.
    pub bytes_per_job: Option<f64>,
    /// Bytes handed to `write` per new job, if the kernel tells.
    pub handed_per_job: Option<f64>,
    /// Publishes a second by the wall clock, the making of the payloads included.
    pub wall_rate: f64,
}

/// Publishes `jobs` times without a pause. The engine's thread, checkpoints and all, is the only one that writes.
pub(crate) fn run(
    driver: &Driver,
    workload: &mut Workload,
    jobs: u64,
    progress: &mut Progress,
) -> Result<Commits, Failure> {
    let mut tally = Tally::new();
    progress.start("publishing without a pause, all keys", jobs);
    let before = procfs::written();
    let start = Instant::now();
    while tally.publishes < jobs {
        driver.publish(workload.batch(BATCH)?, &mut tally)?;
        progress.set(tally.publishes);
    }
    let wall_rate = per_second(tally.publishes, start.elapsed());
    let written = procfs::written().zip(before).map(|(after, before)| after.since(before));
    #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
    let per_job = |bytes: u64| bytes as f64 / tally.created as f64;
    Ok(Commits {
        p50: tally.commit_ms(0.50),
        p99: tally.commit_ms(0.99),
        p999: tally.commit_ms(0.999),
        max: tally.commit_ms(1.0),
        bytes_per_job: written.map(|w| per_job(w.to_disk)),
        handed_per_job: written.map(|w| per_job(w.handed)),
        wall_rate,
    })
}
