//! The store of the simulated server: a memory store that survives crashes, behind a disk that takes its time.
//!
//! It also keeps the part of the history that no client sees: what the server leases and settles for its own webhooks,
//! and what its upkeep ends. What clients ask for, the clients themselves write down.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::settle::Settle;
use semel_core::time::Timestamp;
use semel_proof::history::{self, Call, Say};
use semel_proof::workload::{delivered, told};
use semel_store::{Answer, Command, Health, JobQuery, KeyRecord, Page, Stats, Store, StoreError};
use tokio::time::sleep;

use crate::journal::Open;
use crate::lanes::Lane;
use crate::world::World;

/// A disk that stalls, in percent of the writes.
const STALLS: u64 = 3;

/// The store as the server sees it.
pub(crate) struct Disk(pub(crate) Arc<World>);

impl Disk {
    /// How long a write takes before it is done, and how long until that is known. A crash may come in either.
    fn times(&self) -> (Duration, Duration) {
        let mut dice = self.0.disk_dice.lock().unwrap();
        let stalls = !self.0.is_calm() && dice.chance(STALLS);
        let mut time = || Duration::from_millis(dice.within(if stalls { 100..=900 } else { 0..=3 }));
        (time(), time())
    }

    fn open(&self, command: &Command) -> Option<Open> {
        let call = match command {
            Command::Settle(settle) if !settle.report().from_worker => {
                Call::Settle { id: settle.id(), token: settle.token()?, say: said(settle) }
            }
            Command::Rescue { .. } => Call::Rescue,
            Command::Prune { .. } => Call::Prune,
            _ => return None,
        };
        Some(self.0.journal.open(&call))
    }

    /// Carries a batch out, each command in the way of the flaw if there is one.
    async fn carry_out(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = Vec::with_capacity(batch.len());
        for command in batch {
            let mut all = self.0.store.apply(self.0.flaw.twist(command)).await?;
            answers.extend(all.pop());
        }
        Ok(answers)
    }
}

fn said(settle: &Settle) -> Say {
    match settle.outcome() {
        Outcome::Done { .. } => Say::Ack,
        Outcome::Received => Say::Receive,
        Outcome::Backpressure { .. } => Say::Defer,
        Outcome::Rejected { .. } => Say::Reject,
        Outcome::Failed { .. } | Outcome::Expired => Say::Nack,
    }
}

#[async_trait]
impl Store for Disk {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let opened: Vec<_> = batch.iter().map(|command| self.open(command)).collect();
        let (before, after) = self.times();
        sleep(before).await;
        let answers = self.carry_out(batch).await?;
        sleep(after).await;
        for (open, answer) in opened.into_iter().zip(&answers) {
            match (open, answer) {
                (Some(open), Ok(reply)) => open.ok(told(reply)),
                (Some(open), Err(refusal)) => open.fail(refusal.code()),
                (None, _) => {}
            }
        }
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let queue = request.queue().clone();
        let duration = Lane::of(queue.as_str()).push_lease();
        let open = duration.map(|duration| self.0.journal.open(&Call::Lease { queue, duration }));
        let (_, after) = self.times();
        let deliveries = self.0.store.lease(request).await?;
        sleep(after).await;
        if let Some(open) = open {
            let all: Vec<_> = deliveries.iter().map(delivered).collect();
            self.0.sent(&all);
            open.ok(history::Answer::Leased(all));
        }
        Ok(deliveries)
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.0.store.next_due(queue).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.0.store.next_expiry().await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.0.store.job(id).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        self.0.store.jobs(query).await
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.0.store.key(queue, key).await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.0.store.queue(name).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.0.store.queues().await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.0.store.schedules().await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.0.store.api_keys().await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.0.store.replays().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.0.store.stats().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.0.store.health().await
    }

    fn now(&self) -> Timestamp {
        self.0.store.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.store.close().await
    }
}
