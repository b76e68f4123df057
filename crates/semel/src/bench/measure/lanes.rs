//! Rates that are compared with each other, measured in alternating slices of one run: a slow minute of the machine
//! falls on all of them alike.

use std::thread;
use std::time::Duration;

use semel_core::publish::Publish;

use super::super::drive::{Driver, Tally, per_second};
use super::super::raw::RawLog;
use super::super::workload::{BATCH, Workload};
use super::lives::Lives;
use crate::failure::Failure;
use crate::progress::Progress;

/// Batches of one slice, at most: long against the work that a store leaves behind for its threads (a few MiB of checkpoint),
/// short against the moods of a machine.
const SLICE: usize = 512;
/// Pause before each slice, so that it does not pay for what the slice before has left behind.
const QUIET: Duration = Duration::from_millis(100);

/// What is driven in turns.
pub(crate) struct Lanes<'a> {
    /// The limit.
    pub raw: &'a mut RawLog,
    /// A store that was empty at the start of the round, and its jobs.
    pub empty: (&'a Driver, &'a mut Workload),
    /// The preloaded store, and its jobs.
    pub full: (&'a Driver, &'a mut Workload),
    /// Whole lives on another store that was empty at the start of the round.
    pub lives: Lives<'a>,
}

/// Rates of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    /// Raw appends, in publishes a second.
    pub raw: f64,
    /// Publishes a second into the empty store.
    pub empty: f64,
    /// Publishes a second with all keys present.
    pub full: f64,
    /// Whole lives a second, on an empty store.
    pub lives: f64,
    /// The share of publishes into the empty store that were answered with an earlier job.
    pub deduplicated: f64,
}

impl Lanes<'_> {
    /// Runs slices in turns until every lane has done `jobs` publishes.
    pub(crate) fn run(mut self, jobs: u64, progress: &mut Progress) -> Result<Rates, Failure> {
        let (mut raw_time, mut raw_count) = (Duration::ZERO, 0);
        let (mut empty, mut full, mut lives) = (Tally::new(), Tally::new(), Tally::new());
        progress.start("publishing: raw, empty, full, lives", jobs);
        while empty.publishes < jobs {
            let batches = slice(self.empty.1, jobs)?;
            thread::sleep(QUIET);
            for batch in &batches {
                raw_time += self.raw.append(batch)?;
                raw_count += batch.len() as u64;
            }
            publish(self.empty.0, batches, &mut empty)?;
            publish(self.full.0, slice(self.full.1, jobs)?, &mut full)?;
            thread::sleep(QUIET);
            (0..slice_length(jobs)).try_for_each(|_| self.lives.cycle(&mut lives))?;
            progress.set(empty.publishes);
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
        let deduplicated = 1.0 - empty.created as f64 / empty.publishes as f64;
        Ok(Rates {
            raw: per_second(raw_count, raw_time),
            empty: empty.publishes_per_second(),
            full: full.publishes_per_second(),
            lives: per_second(lives.completed, lives.busy),
            deduplicated,
        })
    }
}

/// A short run is one slice and no more.
fn slice_length(jobs: u64) -> usize {
    usize::try_from(jobs).map_or(SLICE, |jobs| jobs.div_ceil(BATCH).min(SLICE))
}

fn slice(workload: &mut Workload, jobs: u64) -> Result<Vec<Vec<Publish>>, Failure> {
    (0..slice_length(jobs)).map(|_| workload.batch(BATCH)).collect()
}

fn publish(driver: &Driver, slice: Vec<Vec<Publish>>, tally: &mut Tally) -> Result<(), Failure> {
    thread::sleep(QUIET);
    slice.into_iter().try_for_each(|batch| driver.publish(batch, tally))
}
