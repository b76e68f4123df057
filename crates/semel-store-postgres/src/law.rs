//! The law of [`Store`], kept by the files beside this one.

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::{Answer, Command, Health, JobQuery, KeyRecord, Page, Stats, Store, StoreError};

use crate::store::PostgresStore;

#[async_trait]
impl Store for PostgresStore {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        self.apply_batch(&batch).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        self.lease_jobs(&request).await
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.due_next(queue).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.expires_next().await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.find_job(id).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        query.validate().map_err(StoreError::Invalid)?;
        self.list_jobs(query).await
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.find_key(queue, key).await
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.find_queue(name).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.all_queues().await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.all_records("schedule").await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.all_records("api_key").await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.all_records("replay").await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.count_jobs().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.store_health().await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.leave().await
    }
}
