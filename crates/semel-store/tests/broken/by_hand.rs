//! Flaws in what people and rules do to jobs and records: burials, purges, archives, secrets, schedules.

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_store::{Answer, Command, MemoryStore, Store, StoreError};

use super::{Asked, Flaw};

/// A buried job is only called off.
#[derive(Default)]
pub(crate) struct BuriesByCancelling;

impl Flaw for BuriesByCancelling {
    fn command(&self, command: Command) -> Command {
        match command {
            Command::Bury { id, .. } => Command::Cancel(id),
            other => other,
        }
    }
}

/// A purge takes the key along.
#[derive(Default)]
pub(crate) struct PurgesKeys;

#[async_trait]
impl Flaw for PurgesKeys {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        for command in &batch {
            if let Command::Purge(id) = command
                && let Some(release) = release_of(store, *id).await?
            {
                store.apply(vec![release]).await?;
            }
        }
        store.apply(batch).await
    }
}

async fn release_of(store: &MemoryStore, id: JobId) -> Result<Option<Command>, StoreError> {
    let job = store.job(id).await?;
    Ok(job.and_then(|job| {
        let (queue, key) = (job.spec.queue.clone(), job.spec.key.clone()?);
        Some(Command::ReleaseKey { queue, key, reason: "purged".into() })
    }))
}

/// Dead letters do not wait for their archive.
#[derive(Default)]
pub(crate) struct NoArchive;

impl Flaw for NoArchive {
    fn command(&self, command: Command) -> Command {
        let Command::PutQueue { name, mut config } = command else { return command };
        config.retention.archive = false;
        Command::PutQueue { name, config }
    }
}

/// A queue that is changed loses its secrets.
#[derive(Default)]
pub(crate) struct ChangesDropSecrets;

#[async_trait]
impl Flaw for ChangesDropSecrets {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let bare = |command: &Command| match command {
            Command::PutQueue { name, .. } => {
                Some(Command::PutSecrets { queue: name.clone(), secrets: Vec::new() })
            }
            _ => None,
        };
        let dropped = batch.iter().filter_map(bare).collect();
        let answers = store.apply(batch).await?;
        store.apply(dropped).await?;
        Ok(answers)
    }
}

/// A schedule moves on for everybody who asks.
#[derive(Default)]
pub(crate) struct NobodyIsOutrun;

#[async_trait]
impl Flaw for NobodyIsOutrun {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let schedules = store.schedules().await?;
        let stands_at = |name: &str| schedules.iter().find(|s| s.name == name).map(|s| s.next_at);
        let moved = batch.into_iter().map(|command| match command {
            Command::AdvanceSchedule { name, from, to } => {
                Command::AdvanceSchedule { from: stands_at(&name).unwrap_or(from), name, to }
            }
            other => other,
        });
        store.apply(moved.collect()).await
    }
}

/// Replay tasks are kept in memory only.
#[derive(Default)]
pub(crate) struct ForgetsReplayTasks;

impl Flaw for ForgetsReplayTasks {
    fn forgets(&self, asked: &Asked, _: bool) -> bool {
        matches!(asked, Asked::Apply(batch) if batch.iter().all(|c| matches!(c, Command::PutReplay(_))))
    }
}
