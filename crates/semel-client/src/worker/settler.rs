//! Settling: what handlers said goes to the server, as many at once as there are.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use super::heartbeat::is_lost;
use super::tally::Counts;
use crate::Outcome;
use crate::http::work::{Settle, Settling};
use crate::http::{Client, Error};
use crate::outcome::{Said, Wire};

/// Most settles in one request. More would only make the first of them wait for the last.
const BATCH: usize = 256;

/// Most bytes of results in one request; the server takes 16 MiB by default.
const BYTES: usize = 4 * 1024 * 1024;

/// A settle on its way.
pub(super) struct Settled {
    pub(super) job: String,
    pub(super) lease: String,
    pub(super) outcome: Outcome,
    /// When its lease has run out for certain, and the server would refuse it.
    pub(super) until: Instant,
}

/// Sends settles.
pub(super) struct Settler {
    pub(super) client: Client,
    pub(super) counts: Arc<Counts>,
    pub(super) inbox: Receiver<Settled>,
    pub(super) lease: Duration,
}

impl Settler {
    /// Settles until nobody has anything more to settle. While a request is under way the next batch gathers, so a busy
    /// worker settles many at once and an idle one waits for nothing.
    pub(super) async fn run(mut self) {
        let client = self.client.with_deadline(self.lease);
        let mut batch = Vec::new();
        while self.gather(&mut batch).await {
            let items: Vec<_> = batch.iter().map(Settled::item).collect();
            match client.settle(&items).await {
                Ok(answers) => batch = self.judge(batch, answers),
                Err(error) => batch = self.failed(batch, &error),
            }
        }
    }

    /// Fills the batch with what there is; waits only if there is nothing. False at the end.
    async fn gather(&mut self, batch: &mut Vec<Settled>) -> bool {
        if batch.is_empty() {
            match self.inbox.recv().await {
                Some(settled) => batch.push(settled),
                None => return false,
            }
        }
        let mut bytes: usize = batch.iter().map(Settled::size).sum();
        while batch.len() < BATCH
            && bytes < BYTES
            && let Ok(settled) = self.inbox.try_recv()
        {
            bytes += settled.size();
            batch.push(settled);
        }
        true
    }

    /// Counts what was answered. What the server could not do for now is returned.
    fn judge(&self, batch: Vec<Settled>, answers: Vec<Settling>) -> Vec<Settled> {
        let judged = batch.into_iter().zip(answers).filter_map(|(settled, answer)| match answer {
            Ok(()) => {
                self.counts.settled(&settled.outcome);
                None
            }
            Err(problem) if is_lost(&problem) => {
                tracing::warn!(job = %settled.job, "came too late to settle: the delivery is no longer ours");
                self.counts.lost();
                None
            }
            Err(problem) => self.again(settled, problem.retryable, &problem),
        });
        judged.collect()
    }

    fn failed(&self, batch: Vec<Settled>, error: &Error) -> Vec<Settled> {
        batch.into_iter().filter_map(|settled| self.again(settled, error.retryable(), error)).collect()
    }

    /// What may still be settled; the rest is told and left to be delivered again.
    fn again(&self, settled: Settled, retryable: bool, error: &dyn Display) -> Option<Settled> {
        if retryable && Instant::now() < settled.until {
            return Some(settled);
        }
        tracing::error!(job = %settled.job, %error, "could not settle: the job will be delivered again");
        self.counts.unsettled();
        None
    }
}

impl Settled {
    fn item(&self) -> Settle<'_> {
        Settle { id: &self.job, lease: &self.lease, what: Wire::of(&self.outcome) }
    }

    fn size(&self) -> usize {
        match &self.outcome.0 {
            Said::Done { result: Some(result), .. } => result.get().len(),
            _ => 0,
        }
    }
}
