//! What is in a store: everything a caller can read, taken down once.

use std::collections::HashMap;
use std::sync::Arc;

use semel_core::ids::{JobId, Token};
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::query::PAGE_MAX;
use semel_store::{JobQuery, Stats, Store, StoreError};

use crate::history::Digest;
use crate::workload::digest;

/// A store as it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// When the reading began.
    pub at: Timestamp,
    /// Every job of the listing.
    pub jobs: HashMap<JobId, Found>,
    /// Jobs that the listing showed more than once.
    pub listed_twice: Vec<JobId>,
    /// The job each key that was asked for leads to.
    pub keys: HashMap<(QueueName, Key), Option<JobId>>,
    /// The counters.
    pub stats: Stats,
    /// Whether the store had been drained: then nothing may be unfinished.
    pub drained: bool,
}

/// A job as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The queue.
    pub queue: QueueName,
    /// The key.
    pub key: Option<Key>,
    /// The digest of the payload; `None` if the job had been stripped of it.
    pub digest: Option<Digest>,
    /// When it was published.
    pub created_at: Timestamp,
    /// Where it stands.
    pub state: State,
    /// Attempts used up.
    pub attempts: u32,
    /// Times it was deferred.
    pub deferrals: u32,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The token of its last settle.
    pub settled: Option<Token>,
    /// Whether its key was taken away.
    pub released: bool,
}

impl From<&Job> for Found {
    fn from(job: &Job) -> Self {
        Self {
            queue: job.spec.queue.clone(),
            key: job.spec.key.clone(),
            digest: job.spec.payload.as_ref().map(digest),
            created_at: job.spec.created_at,
            state: job.progress.state,
            attempts: job.progress.attempts,
            deferrals: job.progress.deferrals,
            finished_at: job.progress.finished_at,
            settled: job.progress.settled.map(|settle| settle.token),
            released: job.progress.released.is_some(),
        }
    }
}

impl Survey {
    /// Reads a store from which nobody else takes, and looks up `keys` in it.
    pub async fn read(
        store: &Arc<dyn Store>,
        keys: impl IntoIterator<Item = (QueueName, Key)>,
    ) -> Result<Self, StoreError> {
        let mut survey = Self { at: store.now(), stats: store.stats().await?, ..Self::default() };
        survey.read_jobs(store).await?;
        for (queue, key) in keys {
            let record = store.key(&queue, &key).await?;
            survey.keys.insert((queue, key), record.map(|record| record.job.id));
        }
        Ok(survey)
    }

    async fn read_jobs(&mut self, store: &Arc<dyn Store>) -> Result<(), StoreError> {
        let mut query = JobQuery { limit: PAGE_MAX, ..JobQuery::default() };
        loop {
            let page = store.jobs(query.clone()).await?;
            for job in &page.items {
                if self.jobs.insert(job.id, Found::from(job)).is_some() {
                    self.listed_twice.push(job.id);
                }
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}
