//! A trial: one worker, one clock that only moves when told, one store in this process. The same seed gives the same trial.

use std::sync::Arc;

use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, ManualClock, Store};

use crate::book::Book;
use crate::checker::{Report, check};
use crate::dice::Dice;
use crate::drain::{Stuck, drain};
use crate::recorder::Recorder;
use crate::survey::Survey;
use crate::workload::{Ended, Options, Shared, Worker, block_on};

/// Where the clocks of trials start: 2026-01-01.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Works `steps` steps on the store that `open` makes, drains it and judges it.
pub fn run(
    open: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>,
    seed: u64,
    steps: u64,
) -> Result<Report, Stuck> {
    let clock = Arc::new(ManualClock::at(START));
    let store = open(clock.clone());
    block_on(on(&store, &clock, seed, steps))
}

async fn on(store: &Arc<dyn Store>, clock: &ManualClock, seed: u64, steps: u64) -> Result<Report, Stuck> {
    let (recorder, tape) = Recorder::in_memory();
    let shared = Arc::new(Shared::prepare(Arc::clone(store), recorder, 1).await?);
    let mut dice = Dice::new(seed);
    let options = Options { seed, workers: 1, first: 1, steps: None };
    let mut worker = Worker::new(Arc::clone(&shared), options, 0);
    for _ in 0..steps {
        worker.step().await.map_err(Ended::from)??;
        clock.advance(Millis::from_millis(dice.below(60)));
    }
    drain(store, &shared.recorder, clock).await?;
    let mut book = Book::new();
    book.read(&tape.take()).expect("a recorder writes what can be read");
    let keys =
        book.publishes().filter_map(|(subject, _)| Some((subject.queue.clone(), subject.key()?.clone())));
    let mut survey = Survey::read(store, keys.collect::<Vec<_>>()).await?;
    survey.drained = true;
    Ok(check(&book, &survey))
}
