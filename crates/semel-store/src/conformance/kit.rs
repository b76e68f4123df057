//! The tools of a case: short ways to say "publish this", "lease two", "ack it", with a failure that reads well.

use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::publish::{Draft, Published};
use semel_core::queue::QueueConfig;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};

use super::Harness;
use super::make::{config, done, failed, key, plain, publish, published, queue_name, rejected, settle};
use super::snapshot::Snapshot;
use crate::command::{Answer, Command, Reply};
use crate::query::{JobQuery, KeyRecord};
use crate::stats::QueueStats;
use crate::store::Store;

/// What a case works with: a harness, and verbs over its store that panic with a sentence when the store says no.
pub struct Kit {
    harness: Box<dyn Harness>,
}

impl Kit {
    pub(super) fn new(harness: Box<dyn Harness>) -> Self {
        Self { harness }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.store().now()
    }

    pub(super) fn advance(&self, span: Millis) {
        self.harness.advance(span);
    }

    pub(super) fn advance_to(&self, time: Timestamp) {
        self.advance(time.since(self.now()));
    }

    pub(super) async fn crash(&mut self) {
        self.harness.crash().await;
    }

    /// Applies a batch that the store itself must take.
    pub(super) async fn apply(&self, batch: Vec<Command>) -> Vec<Answer> {
        let asked = batch.len();
        let answers = self.store().apply(batch).await.expect("the store takes the batch");
        assert_eq!(answers.len(), asked, "one answer per command");
        answers
    }

    /// Applies one command, whatever the answer.
    pub(super) async fn ask(&self, command: Command) -> Answer {
        self.apply(vec![command]).await.remove(0)
    }

    /// Applies one command that must be granted.
    pub(super) async fn tell(&self, command: Command) -> Reply {
        let name = command.name();
        self.ask(command).await.unwrap_or_else(|refusal| panic!("{name} was refused: {refusal}"))
    }

    /// Applies one command that must be refused, and checks that it changed nothing.
    pub(super) async fn refused(&self, command: Command) -> Refusal {
        let (name, before) = (command.name(), Snapshot::of(self).await);
        let refusal = match self.ask(command).await {
            Err(refusal) => refusal,
            Ok(reply) => panic!("{name} must be refused, but was answered {reply:?}"),
        };
        Snapshot::of(self)
            .await
            .assert_same(&before, &format!("a refused {name} ({refusal}) changed something"));
        refusal
    }

    /// Makes a queue with settings that are easy to count with: fixed waits, no jitter.
    pub(super) async fn queue(&self, name: &str) -> QueueName {
        self.queue_with(name, |_| {}).await
    }

    /// Makes or changes a queue, with what `change` says on top of the kit's settings.
    pub(super) async fn queue_with(&self, name: &str, change: impl FnOnce(&mut QueueConfig)) -> QueueName {
        let (name, mut config) = (queue_name(name), config());
        change(&mut config);
        let put = Command::PutQueue { name: name.clone(), config: Box::new(config) };
        assert_eq!(self.tell(put).await, Reply::Done);
        name
    }

    /// Publishes what must be taken, as a new job or as a duplicate.
    pub(super) async fn publish(&self, draft: Draft) -> Published {
        published(&self.ask(publish(draft)).await)
    }

    /// Publishes a job that must be new, and returns its id.
    pub(super) async fn new_job(&self, draft: Draft) -> JobId {
        let answer = self.publish(draft).await;
        assert!(!answer.deduplicated, "a new job was taken for a duplicate: {answer:?}");
        answer.id
    }

    /// Publishes `n` plain jobs, in order.
    pub(super) async fn new_jobs(&self, queue: &QueueName, n: usize) -> Vec<JobId> {
        let batch = (0..n).map(|_| publish(plain(queue))).collect();
        self.apply(batch).await.iter().map(|answer| published(answer).id).collect()
    }

    /// Leases up to `max` jobs for the time the queue says.
    pub(super) async fn lease(&self, queue: &QueueName, max: u32) -> Vec<Delivery> {
        self.lease_for(queue, max, None).await
    }

    /// Leases up to `max` jobs for `duration`.
    pub(super) async fn lease_for(
        &self,
        queue: &QueueName,
        max: u32,
        duration: Option<Millis>,
    ) -> Vec<Delivery> {
        let request =
            LeaseRequest::new(queue.clone(), max, duration).expect("a lease request of the suite is valid");
        self.store().lease(request).await.expect("the store leases")
    }

    /// The ids of up to `max` jobs, leased.
    pub(super) async fn lease_ids(&self, queue: &QueueName, max: u32) -> Vec<JobId> {
        self.lease(queue, max).await.iter().map(|delivery| delivery.id).collect()
    }

    /// Leases one job that must be there.
    pub(super) async fn take(&self, queue: &QueueName) -> Delivery {
        let mut deliveries = self.lease(queue, 1).await;
        assert_eq!(deliveries.len(), 1, "queue {queue} has a job to lease");
        deliveries.remove(0)
    }

    /// Publishes a job and takes it.
    pub(super) async fn publish_and_take(&self, draft: Draft) -> Delivery {
        let queue = draft.queue.clone();
        let id = self.new_job(draft).await;
        let delivery = self.take(&queue).await;
        assert_eq!(delivery.id, id, "the only ready job is the one just published");
        delivery
    }

    /// Asserts that nothing can be leased now.
    pub(super) async fn expect_nothing(&self, queue: &QueueName, why: &str) {
        let got = self.lease_ids(queue, 10).await;
        assert_eq!(got, [], "{why}");
    }

    /// Settles a delivery with an outcome that must take effect now.
    pub(super) async fn settle(&self, delivery: &Delivery, outcome: Outcome) -> (State, Option<Timestamp>) {
        match self.tell(settle(delivery.id, Some(delivery.token), outcome)).await {
            Reply::Settled { state, due, repeated: false, .. } => (state, due),
            other => panic!("the settle must take effect now, but was answered {other:?}"),
        }
    }

    /// Acks a delivery.
    pub(super) async fn ack(&self, delivery: &Delivery) {
        assert_eq!(self.settle(delivery, done()).await, (State::Completed, None), "an ack completes the job");
    }

    /// Fails a delivery that has attempts left, and returns when it is due again.
    pub(super) async fn fail(&self, delivery: &Delivery) -> Timestamp {
        let (state, due) = self.settle(delivery, failed("boom")).await;
        assert_eq!(state, State::Pending, "a failed attempt is retried while attempts are left");
        due.expect("a job that is retried says when")
    }

    /// Buries a delivery.
    pub(super) async fn reject(&self, delivery: &Delivery) {
        assert_eq!(
            self.settle(delivery, rejected("never")).await,
            (State::Dead, None),
            "a rejection buries the job"
        );
    }

    /// Publishes a job and completes it.
    pub(super) async fn completed(&self, draft: Draft) -> JobId {
        let delivery = self.publish_and_take(draft).await;
        self.ack(&delivery).await;
        delivery.id
    }

    /// Publishes a job and buries it.
    pub(super) async fn dead(&self, draft: Draft) -> JobId {
        let delivery = self.publish_and_take(draft).await;
        self.reject(&delivery).await;
        delivery.id
    }

    /// Publishes a job and cancels it.
    pub(super) async fn cancelled(&self, draft: Draft) -> JobId {
        let id = self.new_job(draft).await;
        assert_eq!(self.tell(Command::Cancel(id)).await, Reply::Done);
        id
    }

    /// Rescues expired leases, all of them, and returns their jobs.
    pub(super) async fn rescue(&self) -> Vec<JobId> {
        match self.tell(Command::Rescue { limit: 1000 }).await {
            Reply::Rescued { jobs, more: false } => jobs.iter().map(|job| job.id).collect(),
            other => panic!("a rescue of everything was answered {other:?}"),
        }
    }

    /// Prunes until a pass is over, and returns how many jobs were dropped and how many stripped.
    pub(super) async fn prune(&self) -> (u32, u32) {
        let mut total = (0, 0);
        for _ in 0..1000 {
            match self.tell(Command::Prune { limit: 100 }).await {
                Reply::Pruned { dropped, stripped, more } => {
                    total = (total.0 + dropped, total.1 + stripped);
                    if !more {
                        return total;
                    }
                }
                other => panic!("a prune was answered {other:?}"),
            }
        }
        panic!("a pass of prune does not end");
    }

    /// Makes `n` calls at once, as that many clients would, and returns what each of them got.
    pub(super) async fn at_once<F>(&self, n: usize, call: impl Fn(Arc<dyn Store>) -> F) -> Vec<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let calls: Vec<_> = (0..n).map(|_| tokio::spawn(call(self.store()))).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.expect("a call does not panic"));
        }
        answers
    }

    /// A job that must exist.
    pub(super) async fn job(&self, id: JobId) -> Job {
        self.find(id).await.unwrap_or_else(|| panic!("job {id} exists"))
    }

    /// A job, if it exists.
    pub(super) async fn find(&self, id: JobId) -> Option<Job> {
        self.store().job(id).await.expect("the store reads a job")
    }

    /// Where a job stands.
    pub(super) async fn state(&self, id: JobId) -> State {
        self.job(id).await.progress.state
    }

    /// What is known of a key.
    pub(super) async fn key(&self, queue: &QueueName, text: &str) -> Option<KeyRecord> {
        self.store().key(queue, &key(text)).await.expect("the store reads a key")
    }

    /// When the queue may next have something.
    pub(super) async fn next_due(&self, queue: &QueueName) -> Option<Timestamp> {
        self.store().next_due(queue).await.expect("the store knows when a queue is due")
    }

    /// When the earliest lease ends.
    pub(super) async fn next_expiry(&self) -> Option<Timestamp> {
        self.store().next_expiry().await.expect("the store knows when a lease ends")
    }

    /// The counts of a queue that must be listed.
    pub(super) async fn stats(&self, queue: &QueueName) -> QueueStats {
        let stats = self.store().stats().await.expect("the store counts");
        let found = stats.queues.into_iter().find(|entry| entry.queue == *queue);
        found.unwrap_or_else(|| panic!("queue {queue} is in the stats"))
    }

    /// Every job that matches, by walking the cursors to the end.
    pub(super) async fn list(&self, mut query: JobQuery) -> Vec<Job> {
        let mut all = Vec::new();
        for _ in 0..10_000 {
            let page = self.store().jobs(query.clone()).await.expect("the store lists jobs");
            assert!(page.items.len() <= query.limit as usize, "a page holds at most what was asked for");
            all.extend(page.items);
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return all,
            }
        }
        panic!("a walk along the cursors does not end");
    }
}
