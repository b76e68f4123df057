//! Moves dead letters to cold storage before they go: queues with `retention.archive` have them written to files
//! (`{archive}/{queue}/{day}-{number}.jsonl.zst`) when their retention is over, and only then taken out of the store.
//!
//! A crash between the two archives a job twice; none is ever taken out that is not in a file on disk. A job that was
//! replayed while its file was being written stays in the store, and is archived again if it dies again. Should it also
//! have died again by then, it is taken out, and its file lacks the history of that last life.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use semel_core::job::Job;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_core::time::{Millis, Timestamp};
use semel_store::group_commit::CommitError;
use semel_store::{Command, Cursor, JobQuery};

use super::calendar::in_words;
use super::role::{Next, Role, Trouble};
use super::{cold, page_of};
use crate::service::Service;

/// The wait between two passes. Each makes at least one file per queue that has something for it, and retention is counted in
/// hours: ten minutes later makes no difference to anybody, and many tiny files would.
const BETWEEN_PASSES: Millis = Millis::from_secs(600);

/// Moves dead letters to cold storage.
pub(super) struct Archive {
    service: Arc<Service>,
    /// Queues that this pass has still to walk along, and where it stands in the first of them.
    ahead: VecDeque<QueueName>,
    cursor: Option<Cursor>,
    /// Queues that ask for an archive although there is none, and were told so.
    warned: HashSet<QueueName>,
}

impl Archive {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, ahead: VecDeque::new(), cursor: None, warned: HashSet::new() }
    }

    async fn begin_pass(&mut self) -> Result<(), Trouble> {
        let queues = self.service.store.queues().await?;
        let asking: VecDeque<_> = queues
            .into_iter()
            .filter(|queue| queue.config.retention.archive)
            .map(|queue| queue.name)
            .collect();
        if self.service.options.archive.is_some() {
            self.ahead = asking;
            return Ok(());
        }
        self.warned.retain(|queue| asking.contains(queue));
        for queue in asking {
            if self.warned.insert(queue.clone()) {
                tracing::warn!(%queue, "the queue archives its dead letters, but this server has no archive directory: \
                    they are kept until it has one, or retention.archive is turned off");
            }
        }
        Ok(())
    }

    /// Archives what is due on one page of a queue.
    async fn page(&mut self, dir: &Path, queue: &QueueName, config: QueueConfig) -> Result<(), Trouble> {
        let now = self.service.store.now();
        let over = past(now, config.retention.dead);
        let page = self.service.store.jobs(JobQuery {
            queue: Some(queue.clone()),
            state: Some(State::Dead),
            // What was published later cannot have died long enough ago.
            to: Some(over.plus(Millis::from_millis(1))),
            limit: page_of(&config),
            cursor: self.cursor,
            ..JobQuery::default()
        });
        let page = page.await?;
        let is_due = |job: &Job| {
            job.spec.payload.is_some() && job.progress.finished_at.is_some_and(|ended| ended <= over)
        };
        let due: Vec<_> = page.items.into_iter().filter(is_due).collect();
        if !due.is_empty() {
            self.archive(dir, queue, due, config, now).await?;
        }
        self.cursor = page.next;
        if self.cursor.is_none() {
            self.ahead.pop_front();
        }
        Ok(())
    }

    async fn archive(
        &self,
        dir: &Path,
        queue: &QueueName,
        due: Vec<Job>,
        config: QueueConfig,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        let path = dir.join(queue.as_str());
        let day = in_words(now).chars().take("yyyy-mm-dd".len()).collect::<String>();
        let ids: Vec<_> = due.iter().map(|job| job.id).collect();
        let target = path.clone();
        let written = tokio::task::spawn_blocking(move || cold::write(&target, &day, &due, &config)).await;
        let written = written.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
        let file = written.map_err(|error| Trouble::Archive { path, error })?;
        tracing::info!(%queue, jobs = ids.len(), file = %file.display(), "dead letters were archived");
        let purges = ids.into_iter().map(Command::Purge).collect();
        for outcome in self.service.commit.submit_all(purges).await {
            match outcome {
                // Refused is one that was replayed or purged meanwhile.
                Ok(_) | Err(CommitError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The time that is `span` before `now`.
fn past(now: Timestamp, span: Millis) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_sub(span.millis()))
}

impl Role for Archive {
    const NAME: &'static str = "archive";

    /// Whoever has no directory only says so.
    fn is_for_all_nodes(&self) -> bool {
        self.service.options.archive.is_some()
    }

    async fn run_once(&mut self) -> Result<Next, Trouble> {
        if self.ahead.is_empty() {
            self.begin_pass().await?;
        }
        let service = self.service.clone();
        let Some((queue, dir)) = self.ahead.front().cloned().zip(service.options.archive.as_ref()) else {
            return Ok(Next::In(BETWEEN_PASSES));
        };
        match service.store.queue(&queue).await? {
            Some(record) if record.config.retention.archive => self.page(dir, &queue, record.config).await?,
            _ => {
                self.cursor = None;
                self.ahead.pop_front();
            }
        }
        Ok(if self.ahead.is_empty() { Next::In(BETWEEN_PASSES) } else { Next::Soon })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use semel_core::ids::JobId;
    use semel_core::payload::Payload;
    use semel_core::publish::Draft;
    use semel_core::queue::Retention;
    use serde_json::Value;
    use tempfile::TempDir;

    use super::super::stage::{Stage, name};
    use super::*;
    use crate::service::{AuthMode, Options};

    const HOUR: Millis = Millis::from_hours(1);

    fn archived() -> QueueConfig {
        let retention = Retention { dead: HOUR, archive: true, ..Retention::default() };
        QueueConfig { retention, window: Millis::ZERO, ..QueueConfig::default() }
    }

    async fn stage_in(dir: Option<PathBuf>) -> (Stage, Archive) {
        let stage = Stage::with(Options { auth: AuthMode::Open, archive: dir, ..Options::default() }).await;
        stage.queue("q", archived()).await;
        let role = Archive::new(stage.service.clone());
        (stage, role)
    }

    async fn pass(role: &mut Archive) {
        while role.run_once().await.unwrap() == Next::Soon {}
    }

    fn lines(file: &Path) -> Vec<Value> {
        let text = zstd::decode_all(fs::File::open(file).unwrap()).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn is_there(stage: &Stage, id: JobId) -> bool {
        stage.service.store.job(id).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_dead_letter_is_written_and_only_then_taken_out() {
        let dir = TempDir::new().unwrap();
        let (stage, mut role) = stage_in(Some(dir.path().join("cold"))).await;
        let payload = Payload::from_json("{\n  \"a\":\r\n 1.0 }").unwrap();
        let draft = Draft::new(name("q"), payload);
        stage.service.commit.publish(draft.check().unwrap()).await.unwrap();
        let first = stage.kill("q", "boom 17").await;
        stage.alarm.advance(HOUR.minus(Millis::from_millis(1)));
        let young = stage.dead("q", None, "later").await;
        pass(&mut role).await;
        assert!(is_there(&stage, first).await, "its retention is not over yet");

        stage.alarm.advance(Millis::from_millis(1));
        pass(&mut role).await;
        assert!(!is_there(&stage, first).await);
        assert!(is_there(&stage, young).await);
        let written = lines(&dir.path().join("cold/q/2026-11-15-1.jsonl.zst"));
        assert_eq!(written.len(), 1, "one line per job, whatever its payload looks like");
        assert_eq!(written[0]["id"], first.to_string());
        assert_eq!(written[0]["payload"]["a"], 1.0);
        assert_eq!(written[0]["history"][0]["error"], "boom 17");

        stage.alarm.advance(HOUR);
        pass(&mut role).await;
        assert_eq!(lines(&dir.path().join("cold/q/2026-11-15-2.jsonl.zst"))[0]["id"], young.to_string());
        let left: Vec<_> = fs::read_dir(dir.path().join("cold/q")).unwrap().collect();
        assert_eq!(left.len(), 2, "nothing unfinished is left");
    }

    #[tokio::test]
    async fn what_is_left_for_a_key_is_not_archived_again() {
        let dir = TempDir::new().unwrap();
        let (stage, mut role) = stage_in(Some(dir.path().to_owned())).await;
        stage.queue("q", QueueConfig { window: Millis::from_hours(100), ..archived() }).await;
        let id = stage.dead("q", Some("k"), "boom").await;
        stage.alarm.advance(HOUR);
        pass(&mut role).await;
        pass(&mut role).await;
        assert_eq!(stage.job(id).await.spec.payload, None, "the key still holds");
        assert_eq!(fs::read_dir(dir.path().join("q")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn nothing_is_taken_out_when_the_archive_cannot_be_written() {
        let dir = TempDir::new().unwrap();
        let in_the_way = dir.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        let (stage, mut role) = stage_in(Some(in_the_way.clone())).await;
        let id = stage.dead("q", None, "boom").await;
        stage.alarm.advance(HOUR);
        let trouble = role.run_once().await.unwrap_err();
        assert!(matches!(&trouble, Trouble::Archive { .. }), "{trouble}");
        assert!(is_there(&stage, id).await);
        fs::remove_file(&in_the_way).unwrap();
        pass(&mut role).await;
        assert!(!is_there(&stage, id).await, "it goes on when somebody has mended it");
    }

    #[tokio::test]
    async fn without_a_directory_everything_is_kept() {
        let (stage, mut role) = stage_in(None).await;
        let id = stage.dead("q", None, "boom").await;
        stage.alarm.advance(HOUR.times(1000));
        assert_eq!(role.run_once().await.unwrap(), Next::In(BETWEEN_PASSES));
        assert!(is_there(&stage, id).await);
        assert_eq!(role.warned.len(), 1);
    }

    #[tokio::test]
    async fn a_queue_that_does_not_ask_for_it_is_left_alone() {
        let dir = TempDir::new().unwrap();
        let (stage, mut role) = stage_in(Some(dir.path().to_owned())).await;
        stage.queue("other", QueueConfig::default()).await;
        let id = stage.dead("other", None, "boom").await;
        stage.alarm.advance(HOUR.times(1000));
        pass(&mut role).await;
        assert!(is_there(&stage, id).await);
        assert!(!dir.path().join("other").exists());
    }
}
