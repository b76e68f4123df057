//! The memory store: the whole law of [`Store`] in plain maps, and the reference that other backends are compared with.
//!
//! It is written to be read. Each subject of the law has a file, and every decision is a call into `semel-core`. What it
//! does not do is survive its process: it is for development, for tests, and for [`crate::model`].

mod deliver;
mod job;
mod prune;
mod publish;
mod queue;
mod read;
mod records;
mod settle;
mod tables;
#[cfg(test)]
mod tests;
pub mod working;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

use crate::clock::Clock;
use crate::command::{Answer, Command};
use crate::error::StoreError;
use crate::health::Health;
use crate::query::{JobQuery, KeyRecord, Page};
use crate::stats::Stats;
use crate::store::{BATCH_MAX, Store};

pub(crate) use tables::Tables;

/// A store that keeps everything in memory.
///
/// One lock guards it all and no call waits while holding it, so every call is one atomic step.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    tables: Tables,
    closed: bool,
}

impl MemoryStore {
    /// An empty store that goes by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_epoch(clock, 1)
    }

    /// An empty store whose tokens start in a given epoch, for a test that wants to tell its tokens from another's.
    pub fn with_epoch(clock: Arc<dyn Clock>, epoch: u32) -> Self {
        Self { clock, inner: Mutex::new(Inner { tables: Tables::new(epoch), closed: false }) }
    }

    /// Makes of this store what a durable one is after a crash, opened again: what was answered is there, and what
    /// lives in memory (leases, probes, what was used of a rate) is gone. Tokens go on in a new epoch.
    pub fn crash(&self) {
        let mut inner = self.lock();
        inner.tables.crash();
        inner.closed = false;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("a call that panicked may have left half a change behind: nothing is safe after it")
    }

    /// Runs one atomic step on the open store, at the store's time.
    fn step<R>(&self, step: impl FnOnce(&mut Tables, Timestamp) -> R) -> Result<R, StoreError> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(StoreError::Closed);
        }
        let now = self.clock.now();
        Ok(step(&mut inner.tables, now))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        if batch.len() > BATCH_MAX {
            return Err(StoreError::TooMany { got: batch.len(), max: BATCH_MAX });
        }
        self.step(|tables, now| batch.into_iter().map(|command| tables.apply(command, now)).collect())
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        self.step(|tables, now| tables.lease(&request, now))
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.step(|tables, now| tables.next_due(queue, now))
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.step(|tables, _| tables.next_expiry())
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.step(|tables, _| tables.job(id))
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        query.validate().map_err(StoreError::Invalid)?;
        self.step(|tables, _| tables.page(&query))
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.step(|tables, now| tables.key_record(queue, key, now))
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.step(|tables, _| tables.queue_record(name))
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.step(|tables, _| tables.queue_records())
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.step(|tables, _| tables.schedules())
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.step(|tables, _| tables.api_keys())
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.step(|tables, _| tables.replays())
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.step(|tables, now| tables.stats(now))
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.step(|tables, _| tables.health())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}

impl Tables {
    /// Applies one command.
    pub(crate) fn apply(&mut self, command: Command, now: Timestamp) -> Answer {
        match command {
            Command::Publish(publish) => self.publish(publish, now),
            Command::Settle(settle) => self.settle(&settle, now),
            Command::Extend(extend) => self.extend(&extend, now),
            Command::Cancel(id) => self.cancel(id, now),
            Command::Bury { id, reason } => self.bury(id, &reason, now),
            Command::Replay(id) => self.replay(id, now),
            Command::Purge(id) => self.purge(id, now),
            Command::ReleaseKey { queue, key, reason } => self.release_key(&queue, &key, reason, now),
            Command::PutQueue { name, config } => self.put_queue(&name, *config, now),
            Command::DeleteQueue(name) => self.delete_queue(&name),
            Command::PutSecrets { queue, secrets } => self.put_secrets(&queue, secrets),
            Command::Pause { queue, paused } => self.pause(&queue, paused),
            Command::PutSchedule(record) => self.put_schedule(*record),
            Command::DeleteSchedule(name) => self.delete_schedule(name),
            Command::AdvanceSchedule { name, from, to } => self.advance_schedule(name, from, to),
            Command::PutApiKey(record) => self.put_api_key(*record),
            Command::DeleteApiKey(id) => self.delete_api_key(id),
            Command::TouchApiKey { id, at } => self.touch_api_key(id, at),
            Command::PutReplay(record) => self.put_replay(*record),
            Command::DeleteReplay(id) => self.delete_replay(id),
            Command::Rescue { limit } => Ok(self.rescue(limit, now)),
            Command::Prune { limit } => Ok(self.prune(limit, now)),
        }
    }
}
