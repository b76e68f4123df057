//! A store that answers at once and keeps nothing: the limit that the server is measured against.

use std::sync::Mutex;

use async_trait::async_trait;
use semel_core::ids::{IdGenerator, JobId};
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::Published;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::{
    Answer, Clock, Command, Health, JobQuery, KeyRecord, Page, Reply, Stats, Store, StoreError, SystemClock,
};

/// Takes everything, keeps nothing but API keys.
#[derive(Debug)]
pub(super) struct NoStore {
    clock: SystemClock,
    ids: Mutex<IdGenerator>,
    keys: Mutex<Vec<ApiKeyRecord>>,
}

impl NoStore {
    pub(super) fn new() -> Self {
        Self { clock: SystemClock::new(), ids: Mutex::new(IdGenerator::new(0)), keys: Mutex::default() }
    }

    fn answer(&self, command: Command) -> Answer {
        match command {
            Command::Publish(_) => {
                let now = self.clock.now();
                let id = self.ids.lock().expect("nobody panics while making an id").next(now);
                Ok(Reply::Published(Published {
                    id,
                    state: State::Pending,
                    created_at: now,
                    deduplicated: false,
                    payload_matches: true,
                    key_expires_at: None,
                    duplicates: 0,
                }))
            }
            Command::PutApiKey(key) => {
                self.keys.lock().expect("nobody panics while adding a key").push(*key);
                Ok(Reply::Done)
            }
            Command::Rescue { .. } => Ok(Reply::Rescued { jobs: Vec::new(), more: false }),
            Command::Prune { .. } => Ok(Reply::Pruned { dropped: 0, stripped: 0, more: false }),
            _ => Ok(Reply::Done),
        }
    }
}

#[async_trait]
impl Store for NoStore {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        Ok(batch.into_iter().map(|command| self.answer(command)).collect())
    }

    async fn lease(&self, _: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        Ok(Vec::new())
    }

    async fn next_due(&self, _: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn job(&self, _: JobId) -> Result<Option<Job>, StoreError> {
        Ok(None)
    }

    async fn jobs(&self, _: JobQuery) -> Result<Page<Job>, StoreError> {
        Ok(Page { items: Vec::new(), next: None })
    }

    async fn key(&self, _: &QueueName, _: &Key) -> Result<Option<KeyRecord>, StoreError> {
        Ok(None)
    }

    async fn queue(&self, _: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        Ok(None)
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        Ok(Vec::new())
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        Ok(Vec::new())
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        Ok(self.keys.lock().expect("nobody panics while adding a key").clone())
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        Ok(Vec::new())
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(Stats::default())
    }

    async fn health(&self) -> Result<Health, StoreError> {
        Ok(Health::default())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
