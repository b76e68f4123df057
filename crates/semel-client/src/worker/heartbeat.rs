//! Heartbeats: the leases of what is in hand are extended, on a task of its own, whatever the handlers do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::held::Held;
use super::tally::Counts;
use crate::http::work::{Settle, Settling};
use crate::http::{Client, Code, Problem};
use crate::outcome::Wire;

/// Heartbeats within one lease: two may be lost before the lease is.
const BEATS: u32 = 3;

/// Most leases in one request, as the server has it.
const BATCH: usize = 1000;

/// Extends leases.
pub(super) struct Heartbeat {
    pub(super) client: Client,
    pub(super) held: Arc<Held>,
    pub(super) counts: Arc<Counts>,
    pub(super) lease: Duration,
}

impl Heartbeat {
    /// Beats until it is aborted.
    pub(super) async fn run(self) {
        let pace = self.lease / BEATS;
        let client = self.client.with_deadline(pace);
        // There is nothing to extend in the beginning. A first beat at once, on a busy machine, would extend what was leased
        // a moment ago.
        let mut beats = interval_at(Instant::now() + pace, pace);
        // Beats that were missed are made up for by one: it extends just as far.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            for some in self.held.all().chunks(BATCH) {
                self.beat(&client, some).await;
            }
        }
    }

    async fn beat(&self, client: &Client, held: &[(String, String)]) {
        let what = Wire::Extend { seconds: self.lease.as_secs_f64() };
        let items: Vec<_> = held.iter().map(|(id, lease)| Settle { id, lease, what: what.clone() }).collect();
        match client.settle(&items).await {
            Ok(answers) => answers.iter().zip(held).for_each(|(answer, held)| self.judge(answer, held)),
            // The next beat tries again. Whether a lease was lost meanwhile is for the server to say.
            Err(error) => tracing::warn!(%error, "a heartbeat did not reach the server"),
        }
    }

    fn judge(&self, answer: &Settling, (job, lease): &(String, String)) {
        let Err(problem) = answer else { return };
        if is_lost(problem) && self.held.lose(lease) {
            tracing::warn!(%job, "a delivery is no longer ours, so the work on it is broken off");
            self.counts.lost();
        }
    }
}

/// Whether a problem says that a delivery is somebody else's, or nobody's.
pub(super) fn is_lost(problem: &Problem) -> bool {
    matches!(problem.code, Code::StaleLease | Code::NotLeased | Code::JobNotFound)
}
