//! Keys and jobs expire while publishing goes on.

use std::path::Path;
use std::sync::Arc;

use semel_core::time::Millis;
use semel_store::{Clock, Command, ManualClock, Reply, SystemClock};

use super::super::drive::{Driver, Tally};
use super::super::workload::{BATCH, Workload};
use super::lives::Lives;
use crate::failure::Failure;
use crate::progress::Progress;

/// Finished jobs that one prune looks at: a slice as upkeep sends it, as many as are published beside it.
const PRUNE: u32 = 128;
/// How far the clock moves: past every window and retention of a queue with default settings.
const LATER: Millis = Millis::from_days(400);

/// Rates of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expiry {
    /// Publishes a second before anything expires.
    pub before: f64,
    /// Publishes a second while everything expires.
    pub during: f64,
}

/// Finishes `expiring` jobs in a new store, lets them grow old, and publishes while they are pruned.
pub(crate) fn run(dir: &Path, expiring: u64, jobs: u64, progress: &mut Progress) -> Result<Expiry, Failure> {
    let clock = Arc::new(ManualClock::at(SystemClock::new().now()));
    let mut workload = Workload::after(0)?;
    let driver = Driver::open(dir, clock.clone(), workload.queues())?;
    progress.start("expiry: finishing jobs", expiring);
    let mut lives = Lives::new(&driver, &mut workload);
    let finished = lives.run(expiring, progress)?.completed + lives.drain()?.completed;
    let before = publish_only(&driver, &mut workload, jobs, progress)?;
    clock.advance(LATER);
    let during = publish_and_prune(&driver, &mut workload, finished, progress)?;
    driver.close()?;
    if during.dropped < finished {
        return Err(Failure::Broken(format!(
            "of {finished} jobs that were due to expire only {} did",
            during.dropped
        )));
    }
    Ok(Expiry { before: before.publishes_per_second(), during: during.publishes_per_second() })
}

fn publish_only(
    driver: &Driver,
    workload: &mut Workload,
    jobs: u64,
    progress: &mut Progress,
) -> Result<Tally, Failure> {
    let mut tally = Tally::new();
    progress.start("expiry: publishing before", jobs);
    while tally.publishes < jobs {
        driver.publish(workload.batch(BATCH)?, &mut tally)?;
        progress.set(tally.publishes);
    }
    Ok(tally)
}

/// Goes on until a prune says that its pass is over, and all is gone or a pass has found nothing.
fn publish_and_prune(
    driver: &Driver,
    workload: &mut Workload,
    finished: u64,
    progress: &mut Progress,
) -> Result<Tally, Failure> {
    let mut tally = Tally::new();
    let mut dropped_in_pass = 0;
    progress.start("expiry: publishing while jobs expire", finished);
    loop {
        let publishes = workload.batch(BATCH)?.into_iter().map(Command::Publish);
        let (answers, took) = driver.apply(publishes.chain([Command::Prune { limit: PRUNE }]).collect())?;
        tally.add_commit(took);
        for answer in answers {
            let reply = answer?;
            let end_of_pass = matches!(reply, Reply::Pruned { more: false, .. });
            tally.add_answer(reply)?;
            if end_of_pass && (tally.dropped >= finished || tally.dropped == dropped_in_pass) {
                return Ok(tally);
            }
            if end_of_pass {
                dropped_in_pass = tally.dropped;
            }
        }
        progress.set(tally.dropped);
    }
}
