//! Draining: work off everything that is left, so that every job has to come to its end.

use std::sync::Arc;

use semel_core::lease::{LEASE_BATCH_MAX, LeaseRequest};
use semel_core::outcome::Outcome;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Command, ManualClock, Store, StoreError};

use crate::history::{Answer, Call, Entry, Say};
use crate::recorder::Recorder;
use crate::workload::{Ended, Lane, delivered, told};

/// Turns in a row in which nothing could be delivered although time moved on. A hold, a breaker and a retry each take one
/// such turn; more than this and the store is stuck.
const IDLE_TURNS_MAX: u32 = 1000;

/// What draining took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Drained {
    /// Jobs that were delivered and acknowledged.
    pub jobs: u64,
    /// Times the clock had to move on.
    pub waits: u64,
}

/// Why draining failed.
#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    /// The store or the history failed.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// Jobs are left, and no passing of time brings them.
    #[error("{0} jobs are left, and the store does not hand them out")]
    Left(u64),
}

impl From<StoreError> for Stuck {
    fn from(error: StoreError) -> Self {
        Self::Ended(Ended::Store(error))
    }
}

/// Leases and acknowledges until nothing is unfinished. Where jobs wait for a time, the clock is moved to it.
pub async fn drain(
    store: &Arc<dyn Store>,
    recorder: &Recorder,
    clock: &ManualClock,
) -> Result<Drained, Stuck> {
    let mut drained = Drained::default();
    let mut idle = 0;
    while idle <= IDLE_TURNS_MAX {
        let mut taken = 0;
        for lane in Lane::ALL {
            taken += drain_lane(store, recorder, lane).await?;
        }
        drained.jobs += taken;
        if taken > 0 {
            idle = 0;
            continue;
        }
        let left = unfinished(store).await?;
        if left == 0 {
            return Ok(drained);
        }
        let next = next_event(store).await?.ok_or(Stuck::Left(left))?;
        // At least a millisecond: "may have something" is allowed to be early.
        clock.advance_to(next.max(store.now().plus(Millis::from_millis(1))));
        drained.waits += 1;
        idle += 1;
    }
    Err(Stuck::Left(unfinished(store).await?))
}

async fn unfinished(store: &Arc<dyn Store>) -> Result<u64, StoreError> {
    Ok(store.stats().await?.queues.iter().map(semel_store::QueueStats::unfinished).sum())
}

async fn next_event(store: &Arc<dyn Store>) -> Result<Option<Timestamp>, StoreError> {
    let mut next = store.next_expiry().await?;
    for lane in Lane::ALL {
        let due = store.next_due(&lane.queue()).await?;
        next = next.into_iter().chain(due).min();
    }
    Ok(next)
}

/// One lease of a lane, acknowledged at once. Returns how many jobs it was.
async fn drain_lane(store: &Arc<dyn Store>, recorder: &Recorder, lane: Lane) -> Result<u64, Ended> {
    let (queue, duration) = (lane.queue(), Millis::from_secs(60));
    let request =
        LeaseRequest::new(queue.clone(), LEASE_BATCH_MAX, Some(duration)).expect("within its limits");
    let op = recorder.invoke(store.now(), [&Call::Lease { queue, duration }].into_iter())?;
    let deliveries = store.lease(request).await?;
    let answer = Answer::Leased(deliveries.iter().map(delivered).collect());
    recorder.write([Entry::Ok { op, at: store.now(), answer }])?;
    let mut calls = vec![Call::Rescue];
    let mut commands = vec![Command::Rescue { limit: 1000 }];
    for delivery in &deliveries {
        let (id, token) = (delivery.id, delivery.token);
        calls.push(Call::Settle { id, token, say: Say::Ack });
        let done = Outcome::Done { result: None, effect: None };
        let settle = Settle::new(id, Some(token), done, Report::default()).expect("an ack is valid");
        commands.push(Command::Settle(settle));
    }
    let first = recorder.invoke(store.now(), calls.iter())?;
    let answers = store.apply(commands).await?;
    recorder.write((first..).zip(&answers).map(|(op, answer)| match answer {
        Ok(reply) => Entry::Ok { op, at: store.now(), answer: told(reply) },
        Err(refusal) => Entry::Fail { op, why: refusal.code().into() },
    }))?;
    Ok(deliveries.len() as u64)
}
