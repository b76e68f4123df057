//! Judges jobs that keep coming back, by their queue's limit.
//!
//! Whoever publishes the same key a hundred times, or acknowledges an effect as replayed again and again, has a fault that
//! deduplication hides. The job is told of once, when it crosses the limit, and buried if its queue says so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::name::QueueName;
use semel_core::queue::{DuplicateAction, DuplicateLimit};
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};
use semel_store::Command;
use semel_store::group_commit::CommitError;
use tokio::sync::{mpsc, watch};

use super::role::{Next, Role, Trouble};
use crate::news::{Event, Kind, Suspect};
use crate::service::Service;

/// How many jobs that crossed their limit are remembered. One that was forgotten is told of again at its next duplicate.
const TOLD_MAX: usize = 10_000;

/// How long a queue's limit is believed. Changes made on this node are heard at once; those of another are not.
const BELIEVED_FOR: Millis = Millis::from_secs(30);

/// Judges jobs that keep coming back.
pub(super) struct Duplicates {
    service: Arc<Service>,
    suspects: mpsc::Receiver<Suspect>,
    changes: watch::Receiver<u64>,
    /// The limits of queues, as they were read at `read_at`. Most queues have none, and a duplicate must not cost a read.
    limits: HashMap<QueueName, Option<DuplicateLimit>>,
    read_at: Timestamp,
    told: Told,
}

/// The crossings that were told of: the newest [`TOLD_MAX`].
#[derive(Default)]
struct Told {
    known: HashSet<Crossing>,
    order: VecDeque<Crossing>,
}

/// A job that crossed a limit. If the limit is changed, crossing the new one is news.
type Crossing = (JobId, u32, bool);

impl Told {
    /// Remembers a crossing that was not known, and forgets the oldest if there are too many.
    fn remember(&mut self, crossing: Crossing) {
        self.known.insert(crossing);
        self.order.push_back(crossing);
        if self.order.len() > TOLD_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Duplicates {
    pub(super) fn new(service: Arc<Service>, suspects: mpsc::Receiver<Suspect>) -> Self {
        let changes = service.news.queues.subscribe();
        let read_at = service.store.now();
        Self { service, suspects, changes, limits: HashMap::new(), read_at, told: Told::default() }
    }

    async fn limit_of(&mut self, queue: &QueueName) -> Result<Option<DuplicateLimit>, Trouble> {
        let now = self.service.store.now();
        let changed = self.changes.has_changed().unwrap_or(true);
        if changed || now.since(self.read_at) >= BELIEVED_FOR {
            self.changes.mark_unchanged();
            self.limits.clear();
            self.read_at = now;
        }
        if let Some(limit) = self.limits.get(queue) {
            return Ok(*limit);
        }
        let record = self.service.store.queue(queue).await?;
        let limit = record.and_then(|record| record.config.duplicates);
        self.limits.insert(queue.clone(), limit);
        Ok(limit)
    }

    async fn judge(&mut self, suspect: &Suspect) -> Result<(), Trouble> {
        let Some(rule) = self.limit_of(&suspect.queue).await? else { return Ok(()) };
        let Some(job) = self.service.store.job(suspect.id).await? else { return Ok(()) };
        let buries = rule.action == DuplicateAction::Dead;
        let crossing = (job.id, rule.limit, buries);
        if !job.is_persistent_duplicate(rule.limit) || self.told.known.contains(&crossing) {
            return Ok(());
        }
        let words = in_words(&job, rule.limit);
        if buries && !job.progress.state.is_finished() {
            // First, so that a burial that fails is tried again at the next duplicate.
            self.bury(job.id, words.clone()).await?;
        }
        self.told.remember(crossing);
        self.tell(&job, &words);
        Ok(())
    }

    fn tell(&self, job: &Job, words: &str) {
        let queue = &job.spec.queue;
        tracing::warn!(%queue, job = %job.id, "{words}");
        self.service.metrics.persistent_duplicate(queue);
        self.service.news.tell(|| Event {
            kind: Kind::PersistentDuplicate,
            at: self.service.store.now(),
            queue: Some(queue.clone()),
            job: Some(job.id),
            detail: Some(words.to_owned()),
        });
    }

    async fn bury(&self, id: JobId, reason: String) -> Result<(), Trouble> {
        match self.service.commit.submit(Command::Bury { id, reason }).await {
            // It ended, or was taken away, while it was being judged.
            Ok(_) | Err(CommitError::Refused(Refusal::WrongState { .. } | Refusal::JobNotFound(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn in_words(job: &Job, limit: u32) -> String {
    format!(
        "persistent duplicate: published again {} times, effect replayed {} times (limit {limit})",
        job.duplicates,
        job.replayed_effects()
    )
}

impl Role for Duplicates {
    const NAME: &'static str = "duplicates";

    fn is_for_all_nodes(&self) -> bool {
        false
    }

    /// Waits for a suspect and judges it. It ends with the service, which may be while nobody is suspected.
    async fn run_once(&mut self) -> Result<Next, Trouble> {
        let stop = self.service.stop.clone();
        let suspect = tokio::select! {
            () = stop.stopped() => None,
            suspect = self.suspects.recv() => suspect,
        };
        let Some(suspect) = suspect else { return Ok(Next::In(BELIEVED_FOR)) };
        self.judge(&suspect).await?;
        Ok(Next::Soon)
    }
}

#[cfg(test)]
mod tests {
    use semel_core::lifecycle::State;
    use semel_core::outcome::{Effect, Outcome, Receipt};
    use semel_core::queue::QueueConfig;
    use tokio::sync::broadcast;

    use super::super::stage::Stage;
    use super::*;

    fn limited(limit: u32, action: DuplicateAction) -> QueueConfig {
        QueueConfig { duplicates: Some(DuplicateLimit { limit, action }), ..QueueConfig::default() }
    }

    /// Judges everybody who is suspected now.
    async fn judge_all(role: &mut Duplicates) {
        while !role.suspects.is_empty() {
            role.run_once().await.unwrap();
        }
    }

    fn told(events: &mut broadcast::Receiver<Event>) -> usize {
        let all = std::iter::from_fn(|| events.try_recv().ok());
        all.filter(|event| event.kind == Kind::PersistentDuplicate).count()
    }

    async fn stage_with(config: QueueConfig) -> (Stage, Duplicates) {
        let mut stage = Stage::new().await;
        stage.queue("q", config).await;
        let suspects = stage.suspects.take().unwrap();
        let role = Duplicates::new(stage.service.clone(), suspects);
        (stage, role)
    }

    #[tokio::test]
    async fn a_crossing_is_told_of_once_and_the_job_goes_on() {
        let (stage, mut role) = stage_with(limited(2, DuplicateAction::Count)).await;
        let mut events = stage.service.news.listen();
        let id = stage.publish("q", Some("k")).await;
        stage.publish("q", Some("k")).await;
        judge_all(&mut role).await;
        assert_eq!(told(&mut events), 0, "one duplicate is below the limit");
        for _ in 0..3 {
            stage.publish("q", Some("k")).await;
            judge_all(&mut role).await;
        }
        assert_eq!(told(&mut events), 1);
        assert_eq!(stage.job(id).await.progress.state, State::Pending);
    }

    #[tokio::test]
    async fn a_queue_may_have_it_buried_with_the_reason() {
        let (stage, mut role) = stage_with(limited(1, DuplicateAction::Dead)).await;
        let id = stage.publish("q", Some("k")).await;
        stage.publish("q", Some("k")).await;
        judge_all(&mut role).await;
        let job = stage.job(id).await;
        assert_eq!(job.progress.state, State::Dead);
        let words = "persistent duplicate: published again 1 times, effect replayed 0 times (limit 1)";
        assert_eq!(job.progress.last_error(), Some(words));
        // A person replays it: it is not buried a second time for the same crossing.
        stage.submit(Command::Replay(id)).await;
        stage.publish("q", Some("k")).await;
        judge_all(&mut role).await;
        assert_eq!(stage.job(id).await.progress.state, State::Pending);
    }

    #[tokio::test]
    async fn an_effect_that_was_replayed_counts_and_what_is_finished_stays_as_it_is() {
        let (stage, mut role) = stage_with(limited(1, DuplicateAction::Dead)).await;
        let mut events = stage.service.news.listen();
        let id = stage.publish("q", None).await;
        let delivery = stage.lease("q", None).await;
        let effect = Some(Receipt { outcome: Effect::Replayed, key: None });
        stage.settle(&delivery, Outcome::Done { result: None, effect }).await;
        judge_all(&mut role).await;
        assert_eq!(told(&mut events), 1);
        assert_eq!(stage.job(id).await.progress.state, State::Completed);
    }

    #[tokio::test]
    async fn a_limit_that_is_set_later_is_heard_of() {
        let (stage, mut role) = stage_with(QueueConfig::default()).await;
        let mut events = stage.service.news.listen();
        stage.publish("q", Some("k")).await;
        stage.publish("q", Some("k")).await;
        judge_all(&mut role).await;
        assert_eq!(told(&mut events), 0);
        stage.queue("q", limited(1, DuplicateAction::Count)).await;
        stage.publish("q", Some("k")).await;
        judge_all(&mut role).await;
        assert_eq!(told(&mut events), 1);
    }

    #[test]
    fn only_so_many_crossings_are_remembered() {
        let mut told = Told::default();
        let crossing = |n| (JobId::from_raw(n).unwrap(), 1, false);
        (0..=TOLD_MAX as u64).for_each(|n| told.remember(crossing(n)));
        assert_eq!((told.known.len(), told.order.len()), (TOLD_MAX, TOLD_MAX));
        assert!(!told.known.contains(&crossing(0)), "the oldest was forgotten");
        assert!(told.known.contains(&crossing(1)));
    }
}
