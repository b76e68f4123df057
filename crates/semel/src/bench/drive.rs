//! Drives a store from one thread, and times it: what is counted is the time between asking and the answer.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::publish::Publish;
use semel_core::queue::QueueConfig;
use semel_store::{Answer, Clock, Command, Reply, Store};
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::opening;

/// Longest commit the histogram tells apart; a longer one counts as this long.
const LONGEST_MICROS: u64 = 60_000_000;

/// A store with the means to call it from a plain thread.
pub(crate) struct Driver {
    dir: PathBuf,
    runtime: Runtime,
    store: Arc<dyn Store>,
}

impl Driver {
    /// Opens the store in `dir` (made if need be) and makes sure that the queues exist.
    pub(crate) fn open(dir: &Path, clock: Arc<dyn Clock>, queues: &[QueueName]) -> Result<Self, Failure> {
        let store = Arc::new(opening::store(dir, opening::options(clock))?);
        let driver = Self { dir: dir.to_owned(), runtime: opening::runtime()?, store };
        let put = |name: &QueueName| Command::PutQueue {
            name: name.clone(),
            config: Box::new(QueueConfig::default()),
        };
        let missing: Vec<_> =
            queues.iter().filter(|q| !matches!(driver.queue(q), Ok(true))).map(put).collect();
        if !missing.is_empty() {
            driver.apply(missing)?.0.into_iter().try_for_each(|answer| answer.map(drop))?;
        }
        Ok(driver)
    }

    fn queue(&self, name: &QueueName) -> Result<bool, Failure> {
        Ok(self.runtime.block_on(self.store.queue(name)).map_err(Failure::store(&self.dir))?.is_some())
    }

    /// Applies a batch; returns the answers and how long they took.
    pub(crate) fn apply(&self, batch: Vec<Command>) -> Result<(Vec<Answer>, Duration), Failure> {
        let start = Instant::now();
        let answers = self.runtime.block_on(self.store.apply(batch)).map_err(Failure::store(&self.dir))?;
        Ok((answers, start.elapsed()))
    }

    /// Publishes a batch and adds it to the tally. Every publish must be taken.
    pub(crate) fn publish(&self, batch: Vec<Publish>, tally: &mut Tally) -> Result<(), Failure> {
        let (answers, took) = self.apply(batch.into_iter().map(Command::Publish).collect())?;
        tally.add_commit(took);
        answers.into_iter().try_for_each(|answer| tally.add_answer(answer?))
    }

    /// Leases up to `max` jobs of a queue; returns them and how long that took.
    pub(crate) fn lease(&self, queue: &QueueName, max: u32) -> Result<(Vec<Delivery>, Duration), Failure> {
        let request = LeaseRequest::new(queue.clone(), max, None)?;
        let start = Instant::now();
        let deliveries =
            self.runtime.block_on(self.store.lease(request)).map_err(Failure::store(&self.dir))?;
        Ok((deliveries, start.elapsed()))
    }

    /// Leases up to `max` jobs of each queue, all at the same time, as a worker per queue would; returns them and how long
    /// the last answer took.
    pub(crate) fn lease_at_once(
        &self,
        queues: &[QueueName],
        max: u32,
    ) -> Result<(Vec<Delivery>, Duration), Failure> {
        let requests: Result<Vec<_>, _> =
            queues.iter().map(|queue| LeaseRequest::new(queue.clone(), max, None)).collect();
        let mut calls: Vec<_> = requests?.into_iter().map(|request| self.store.lease(request)).collect();
        let mut deliveries = Vec::new();
        let start = Instant::now();
        let all = poll_fn(|cx| {
            let mut failure = None;
            // A call that has been answered is not polled again.
            calls.retain_mut(|call| match call.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(Ok(more)) => {
                    deliveries.extend(more);
                    false
                }
                Poll::Ready(Err(e)) => {
                    failure = Some(e);
                    false
                }
            });
            match failure {
                Some(e) => Poll::Ready(Err(e)),
                None if calls.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        });
        self.runtime.block_on(all).map_err(Failure::store(&self.dir))?;
        Ok((deliveries, start.elapsed()))
    }

    /// Whether the store has a job under a key.
    pub(crate) fn has_key(&self, (queue, key): &(QueueName, semel_core::Key)) -> Result<bool, Failure> {
        let record = self.runtime.block_on(self.store.key(queue, key)).map_err(Failure::store(&self.dir))?;
        Ok(record.is_some())
    }

    /// Ends the store in order.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.runtime.block_on(self.store.close()).map_err(Failure::store(&self.dir))
    }
}

/// What one kind of work added up to.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Publishes that were answered.
    pub publishes: u64,
    /// Those of them that made a new job.
    pub created: u64,
    /// Jobs that were completed.
    pub completed: u64,
    /// Jobs that expired.
    pub dropped: u64,
    /// Time spent waiting for answers.
    pub busy: Duration,
    /// How long each commit took, in microseconds.
    pub commits: Histogram<u64>,
}

impl Tally {
    /// Nothing done yet.
    pub(crate) fn new() -> Self {
        let commits = Histogram::new_with_max(LONGEST_MICROS, 3)
            .expect("three digits up to a minute is a valid histogram");
        Self { publishes: 0, created: 0, completed: 0, dropped: 0, busy: Duration::ZERO, commits }
    }

    /// Counts the time of one commit.
    pub(crate) fn add_commit(&mut self, took: Duration) {
        self.busy += took;
        self.commits.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST_MICROS));
    }

    /// Counts what a command brought about.
    pub(crate) fn add_answer(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Published(published) => {
                self.publishes += 1;
                self.created += u64::from(!published.deduplicated);
            }
            Reply::Settled { .. } => self.completed += 1,
            Reply::Pruned { dropped, .. } => self.dropped += u64::from(dropped),
            other => {
                return Err(Failure::Broken(format!(
                    "the store gave an answer that nobody asked for: {other:?}"
                )));
            }
        }
        Ok(())
    }

    /// Publishes per second of waiting for them.
    pub(crate) fn publishes_per_second(&self) -> f64 {
        per_second(self.publishes, self.busy)
    }

    /// The commit latency that this share of the commits did not exceed, in milliseconds.
    pub(crate) fn commit_ms(&self, quantile: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a minute in microseconds is far below 2^53")]
        let micros = self.commits.value_at_quantile(quantile) as f64;
        micros / 1000.0
    }
}

/// How many a second.
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
    let count = count as f64;
    count / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_knows_its_rate_and_its_slowest_commits() {
        let mut tally = Tally::new();
        (0..98).for_each(|_| tally.add_commit(Duration::from_millis(1)));
        tally.add_commit(Duration::from_millis(50));
        tally.add_commit(Duration::from_secs(3600));
        tally.publishes = 100;
        assert!((tally.commit_ms(0.5) - 1.0).abs() < 0.01);
        assert!((tally.commit_ms(0.99) - 50.0).abs() < 0.1);
        assert!(tally.commit_ms(1.0) >= 60_000.0, "a commit off the scale is not lost");
        assert!(tally.publishes_per_second() < 1.0);
    }
}
