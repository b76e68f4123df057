//! Whole lives: published, leased, completed.

use semel_core::lease::Delivery;
use semel_core::outcome::Outcome;
use semel_core::settle::{Report, Settle};
use semel_store::Command;

use super::super::drive::{Driver, Tally};
use super::super::workload::{BATCH, QUEUES, Workload};
use crate::failure::Failure;
use crate::progress::Progress;

/// Publishers and workers on one store, in lockstep.
pub(crate) struct Lives<'a> {
    driver: &'a Driver,
    workload: &'a mut Workload,
    held: Vec<Delivery>,
}

impl<'a> Lives<'a> {
    /// Publishers and workers that have not started yet.
    pub(crate) fn new(driver: &'a Driver, workload: &'a mut Workload) -> Self {
        Self { driver, workload, held: Vec::new() }
    }

    /// One cycle: a batch of publishes goes down together with the settles of what was leased in the cycle before, as
    /// concurrent callers' would, then as many jobs are leased from all queues as were published.
    pub(crate) fn cycle(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let publishes = self.workload.batch(BATCH)?.into_iter().map(Command::Publish);
        let settles = self.settles()?;
        let (answers, took) = self.driver.apply(publishes.chain(settles).collect())?;
        tally.add_commit(took);
        answers.into_iter().try_for_each(|answer| tally.add_answer(answer?))?;
        self.lease_from_all(tally)
    }

    /// Completes everything that is held.
    fn settles(&mut self) -> Result<Vec<Command>, Failure> {
        let settles = self.held.iter().map(complete).collect();
        self.held.clear();
        settles
    }

    fn lease_from_all(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let each = u32::try_from(BATCH as u64 / QUEUES).expect("8 fits a u32");
        let (deliveries, took) = self.driver.lease_at_once(self.workload.queues(), each)?;
        tally.busy += took;
        self.held.extend(deliveries);
        Ok(())
    }

    /// Completes jobs, publishing none, until all that are ready are done.
    pub(crate) fn drain(&mut self) -> Result<Tally, Failure> {
        let mut tally = Tally::new();
        self.lease_from_all(&mut tally)?;
        while !self.held.is_empty() {
            let settles = self.settles()?;
            let (answers, took) = self.driver.apply(settles)?;
            tally.add_commit(took);
            answers.into_iter().try_for_each(|answer| tally.add_answer(answer?))?;
            self.lease_from_all(&mut tally)?;
        }
        Ok(tally)
    }

    /// Runs cycles until `jobs` lives are over.
    pub(crate) fn run(&mut self, jobs: u64, progress: &mut Progress) -> Result<Tally, Failure> {
        let mut tally = Tally::new();
        while tally.completed < jobs {
            self.cycle(&mut tally)?;
            progress.set(tally.completed);
        }
        Ok(tally)
    }
}

fn complete(delivery: &Delivery) -> Result<Command, Failure> {
    let outcome = Outcome::Done { result: None, effect: None };
    let report = Report { from_worker: true, ..Report::default() };
    Ok(Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, report)?))
}
