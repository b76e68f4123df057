//! The model test on the memory store itself, and on memory stores that were broken on purpose: a test that cannot fail
//! proves nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use semel_core::ids::{JobId, Token};
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, Extend, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::model::{Histories, check_against_memory};
use semel_store::{
    Answer, Clock, Command, Health, JobQuery, KeyRecord, ManualClock, MemoryStore, Page, Reply, Stats, Store,
    StoreError,
};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Stores every publish, whoever holds its key.
    NoDedup,
    /// Settles whatever delivery is out, whoever says so.
    NoFence,
    /// Hands out what is ready in the wrong order.
    WrongOrder,
    /// Is right in all but that every token is smaller than the one before.
    FallingTokens,
    /// Says that a job is due later than it is.
    LateDue,
    /// Takes a job off the end of a listing.
    ShortList,
    /// Answers a cancel, and does nothing.
    IdleCancel,
    /// Leases survive a crash.
    NoCrash,
}

/// A memory store with a fault.
struct Faulty {
    inner: MemoryStore,
    fault: Fault,
}

#[async_trait]
impl Store for Faulty {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = Vec::new();
        for command in batch {
            if self.idles(&command).await? {
                answers.push(Ok(Reply::Done));
                continue;
            }
            self.free_key(&command).await?;
            answers.extend(self.inner.apply(vec![self.twist(command)]).await?);
        }
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let mut deliveries = self.inner.lease(request).await?;
        match self.fault {
            Fault::WrongOrder => deliveries.reverse(),
            _ => deliveries.iter_mut().for_each(|delivery| delivery.token = self.token(delivery.token)),
        }
        Ok(deliveries)
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        let late = Millis::from_millis(u64::from(self.fault == Fault::LateDue));
        Ok(self.inner.next_due(queue).await?.map(|due| due.max(self.now()).plus(late)))
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        let mut page = self.inner.jobs(query).await?;
        page.items = page.items.into_iter().map(|job| self.shown(job)).collect();
        if self.fault == Fault::ShortList && page.items.len() > 2 {
            page.items.pop();
        }
        Ok(page)
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.inner.next_expiry().await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.inner.job(id).await?.map(|job| self.shown(job)))
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        let record = self.inner.key(queue, key).await?;
        Ok(record.map(|record| KeyRecord { job: self.shown(record.job), ..record }))
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.inner.queue(name).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.inner.queues().await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.inner.schedules().await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.inner.api_keys().await
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.inner.replays().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.inner.stats().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

impl Faulty {
    fn twist(&self, command: Command) -> Command {
        match (self.fault, command) {
            (fault, Command::Settle(settle)) => {
                let token = settle.token().filter(|_| fault != Fault::NoFence).map(|token| self.token(token));
                let twisted =
                    Settle::new(settle.id(), token, settle.outcome().clone(), settle.report().clone());
                Command::Settle(twisted.expect("it was valid with the other token"))
            }
            (_, Command::Extend(extend)) => {
                let token = extend.token.map(|token| self.token(token));
                let twisted = Extend::new(extend.id, token, extend.duration());
                Command::Extend(twisted.expect("it was valid with the other token"))
            }
            (_, command) => command,
        }
    }

    /// Whether this is a cancel that should be done, and is not.
    async fn idles(&self, command: &Command) -> Result<bool, StoreError> {
        let (Fault::IdleCancel, Command::Cancel(id)) = (self.fault, command) else { return Ok(false) };
        Ok(self.inner.job(*id).await?.is_some_and(|job| !job.progress.state.is_finished()))
    }

    /// A store without deduplication: whoever has the key of a publish loses it first.
    async fn free_key(&self, command: &Command) -> Result<(), StoreError> {
        if let (Fault::NoDedup, Command::Publish(publish)) = (self.fault, command)
            && let Some(key) = publish.draft().key.clone()
        {
            let queue = publish.draft().queue.clone();
            self.inner.apply(vec![Command::ReleaseKey { queue, key, reason: "none".into() }]).await?;
        }
        Ok(())
    }

    /// The token as this store shows it, and back.
    fn token(&self, token: Token) -> Token {
        if self.fault == Fault::FallingTokens { Token::from_raw(u64::MAX - token.raw()) } else { token }
    }

    fn shown(&self, mut job: Job) -> Job {
        if let Some(settled) = &mut job.progress.settled {
            settled.token = self.token(settled.token);
        }
        job
    }
}

struct MemoryHarness {
    clock: Arc<ManualClock>,
    store: Arc<Faulty>,
}

impl MemoryHarness {
    fn new(fault: Fault) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        // Another epoch than the model's, so that a test that compared tokens would fail.
        let inner = MemoryStore::with_epoch(Arc::clone(&clock) as Arc<dyn Clock>, 7);
        Self { clock, store: Arc::new(Faulty { inner, fault }) }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    async fn crash(&mut self) {
        if self.store.fault != Fault::NoCrash {
            self.store.inner.crash();
        }
    }
}

#[test]
fn the_memory_store_behaves_as_itself() {
    check_against_memory(|| MemoryHarness::new(Fault::None));
}

/// Runs the model test on a faulty store and returns what it reports. The histories are always the same, because what is
/// tested here is the test.
fn caught(fault: Fault) -> String {
    let histories = Histories { cases: 256, seed: 1 };
    let run = || histories.check(|| MemoryHarness::new(fault));
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("the model test let a broken store pass");
    panic.downcast_ref::<String>().expect("it says what is wrong").clone()
}

/// How many steps the history in a report has.
fn steps(report: &str) -> usize {
    report
        .lines()
        .filter(|line| line.starts_with("  ") && line.trim_start().starts_with(char::is_numeric))
        .count()
}

#[test]
fn a_store_that_does_not_deduplicate_is_caught_in_few_steps() {
    let report = caught(Fault::NoDedup);
    assert!(report.contains("answers differ") && report.contains("deduplicated: true"), "{report}");
    assert!(report.contains("SEMEL_MODEL_SEED=1 repeats it"), "{report}");
    assert!((1..=2).contains(&steps(&report)), "two publishes are enough: {report}");
}

#[test]
fn a_store_that_lets_anybody_settle_is_caught() {
    let report = caught(Fault::NoFence);
    assert!(report.contains("answers differ") && report.contains("StaleLease"), "{report}");
}

#[test]
fn a_store_with_another_ready_order_is_caught() {
    let report = caught(Fault::WrongOrder);
    assert!(report.contains("deliveries differ"), "{report}");
    assert!((2..=3).contains(&steps(&report)), "two publishes and a lease are enough: {report}");
}

#[test]
fn a_store_whose_tokens_fall_is_caught() {
    let report = caught(Fault::FallingTokens);
    assert!(report.contains("greater than every one before"), "{report}");
}

#[test]
fn a_store_that_is_late_is_caught() {
    let report = caught(Fault::LateDue);
    assert!(report.contains("said to have nothing before"), "{report}");
}

#[test]
fn a_store_that_lists_too_little_is_caught() {
    let report = caught(Fault::ShortList);
    assert!(report.contains("listings differ"), "{report}");
}

#[test]
fn a_store_that_answers_and_does_nothing_is_caught() {
    let report = caught(Fault::IdleCancel);
    assert!(report.contains("jobs differ") && report.contains("Cancelled"), "{report}");
}

#[test]
fn a_store_whose_leases_survive_a_crash_is_caught() {
    let report = caught(Fault::NoCrash);
    assert!(report.contains("counts differ") && report.contains("Lease"), "{report}");
}
