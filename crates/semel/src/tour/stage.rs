//! The store that the tour plays on, and short words for what is done with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::ids::{JobId, Token};
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Published};
use semel_core::queue::{OnCollision, QueueConfig};
use semel_core::refusal::Refusal;
use semel_core::retry::{Jitter, RetryPolicy};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Answer, Command, ManualClock, Reply, Store, StoreError};
use semel_store_embedded::{EmbeddedStore, Options};
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::opening;

/// The queue of the tour.
pub(crate) const QUEUE: &str = "orders";
/// Attempts before a job is dead, few enough to watch.
pub(crate) const ATTEMPTS: u32 = 3;

/// A store with one queue, and a clock that can be moved on, because nobody wants to watch a lease run out.
pub(crate) struct Stage {
    dir: PathBuf,
    runtime: Runtime,
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    queue: QueueName,
}

impl Stage {
    /// Opens an empty store with the queue on it.
    pub(crate) fn open(dir: &Path, options: &Options) -> Result<Self, Failure> {
        let clock = Arc::new(ManualClock::at(options.clock.now()));
        let store = opening::store(dir, Options { clock: clock.clone(), ..options.clone() })?;
        let queue = QueueName::try_from(QUEUE)?;
        let stage = Self { dir: dir.to_owned(), runtime: opening::runtime()?, store, clock, queue };
        stage.apply(Command::PutQueue { name: stage.queue.clone(), config: Box::new(config()) })??;
        Ok(stage)
    }

    /// One command, one answer.
    pub(crate) fn apply(&self, command: Command) -> Result<Answer, Failure> {
        let answers = self.wait(self.store.apply(vec![command]))?;
        answers.into_iter().next().ok_or_else(|| Failure::Broken("the store did not answer a command".into()))
    }

    /// Publishes JSON under a key.
    pub(crate) fn publish(&self, key: &str, payload: &str) -> Result<Result<Published, Refusal>, Failure> {
        let draft = Draft::new(self.queue.clone(), Payload::from_json(payload.to_owned())?)
            .with_key(Key::try_from(key)?);
        match self.apply(Command::Publish(draft.check()?))? {
            Ok(Reply::Published(published)) => Ok(Ok(published)),
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Takes the next job, if one is ready.
    pub(crate) fn lease(&self) -> Result<Option<Delivery>, Failure> {
        Ok(self.wait(self.store.lease(LeaseRequest::new(self.queue.clone(), 1, None)?))?.pop())
    }

    /// Settles a delivery as its worker would.
    pub(crate) fn settle(&self, id: JobId, token: Token, outcome: Outcome) -> Result<Answer, Failure> {
        let report = Report { from_worker: true, ..Report::default() };
        self.apply(Command::Settle(Settle::new(id, Some(token), outcome, report)?))
    }

    /// Reads a job that must be there.
    pub(crate) fn job(&self, id: JobId) -> Result<Job, Failure> {
        let job = self.wait(self.store.job(id))?;
        job.ok_or_else(|| Failure::Broken(format!("{id} was published and is not there")))
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Ends the store in order.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.wait(self.store.close())
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        self.runtime.block_on(call).map_err(Failure::store(&self.dir))
    }
}

/// Collisions are refused, so that the answer shows what differs; waits are exact, so that they can be seen to grow.
fn config() -> QueueConfig {
    QueueConfig {
        on_collision: OnCollision::Reject,
        max_attempts: ATTEMPTS,
        retry: RetryPolicy { jitter: Jitter::None, ..RetryPolicy::default() },
        ..QueueConfig::default()
    }
}

/// An answer that does not belong to its question.
pub(crate) fn unexpected(reply: &Reply) -> Failure {
    Failure::Broken(format!("the store gave an answer that nobody asked for: {reply:?}"))
}
