//! Fills a store with as many queued jobs and keys as the plan says.

use super::super::drive::{Driver, Tally};
use super::super::workload::{BATCH, Workload};
use crate::failure::Failure;
use crate::progress::Progress;

/// Publishes until `keys` jobs are there. It is the worst case on purpose: nothing is leased, so all of them are queued.
pub(crate) fn run(
    driver: &Driver,
    workload: &mut Workload,
    keys: u64,
    progress: &mut Progress,
) -> Result<Tally, Failure> {
    let mut tally = Tally::new();
    progress.start("preloading keys and queued jobs", keys);
    while workload.published() < keys {
        let batch = workload.batch(BATCH)?;
        driver.publish(batch, &mut tally)?;
        progress.set(workload.published());
    }
    if tally.created < keys {
        return Err(Failure::Broken(format!(
            "published {keys} different jobs, but the store made only {}",
            tally.created
        )));
    }
    Ok(tally)
}
