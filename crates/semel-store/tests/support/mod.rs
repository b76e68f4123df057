//! A store that only applies, as each test has it: for tests of what sits above a store.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::query::{JobQuery, KeyRecord, Page};
use semel_store::{Answer, Command, Health, Reply, Stats, Store, StoreError};

pub(crate) type Applied = Result<Vec<Answer>, StoreError>;

/// A store whose `apply` is a closure.
pub(crate) struct Fake<F>(F);

/// A store whose `apply` is `apply`.
pub(crate) fn store<F, A>(apply: F) -> Arc<dyn Store>
where
    F: Fn(Vec<Command>) -> A + Send + Sync + 'static,
    A: Future<Output = Applied> + Send + 'static,
{
    Arc::new(Fake(move |batch| Box::pin(apply(batch)) as Pin<Box<dyn Future<Output = Applied> + Send>>))
}

/// A command that can be told from all others.
pub(crate) fn command(number: u64) -> Command {
    Command::Cancel(JobId::from_raw(number).unwrap())
}

/// The numbers of commands made by [`command`].
pub(crate) fn numbers(batch: &[Command]) -> Vec<u64> {
    batch
        .iter()
        .map(|c| if let Command::Cancel(id) = c { id.raw() } else { panic!("not ours: {c:?}") })
        .collect()
}

/// The answer that says which command it is for.
pub(crate) fn reply(number: u64) -> Reply {
    Reply::KeyReleased(JobId::from_raw(number).unwrap())
}

/// Answers each command with its number.
pub(crate) fn echo(numbers: &[u64]) -> Vec<Answer> {
    numbers.iter().map(|&number| Ok(reply(number))).collect()
}

const ONLY_APPLIES: &str = "group commit calls nothing but apply";

#[async_trait]
impl<F> Store for Fake<F>
where
    F: Fn(Vec<Command>) -> Pin<Box<dyn Future<Output = Applied> + Send>> + Send + Sync + 'static,
{
    async fn apply(&self, batch: Vec<Command>) -> Applied {
        (self.0)(batch).await
    }

    async fn lease(&self, _: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn next_due(&self, _: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn job(&self, _: JobId) -> Result<Option<Job>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn jobs(&self, _: JobQuery) -> Result<Page<Job>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn key(&self, _: &QueueName, _: &Key) -> Result<Option<KeyRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn queue(&self, _: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn health(&self) -> Result<Health, StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }

    fn now(&self) -> Timestamp {
        unreachable!("{ONLY_APPLIES}")
    }

    async fn close(&self) -> Result<(), StoreError> {
        unreachable!("{ONLY_APPLIES}")
    }
}
