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
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::model::check_against_memory;
use semel_store::{
    Answer, Clock, Command, JobQuery, KeyRecord, ManualClock, MemoryStore, Page, Stats, Store, StoreError,
};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Publishes as if there were no key.
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
    /// Loses the last command of a batch.
    LostCommand,
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
        let size = batch.len();
        let batch: Vec<_> = batch.into_iter().map(|command| self.twist(command)).collect();
        if self.fault != Fault::LostCommand || size < 2 {
            return self.inner.apply(batch).await;
        }
        let mut answers = self.inner.apply(batch[..size - 1].to_vec()).await?;
        answers.push(answers[0].clone());
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

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.inner.stats().await
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
            (Fault::NoDedup, Command::Publish(publish)) => {
                let mut draft = publish.draft().clone();
                draft.key = None;
                Command::Publish(draft.check().expect("it was valid with a key"))
            }
            (fault, Command::Settle(settle)) => {
                let token = settle.token().filter(|_| fault != Fault::NoFence).map(|token| self.token(token));
                let twisted = Settle::new(settle.id(), token, settle.outcome().clone(), settle.report());
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

/// Runs the model test on a faulty store and returns what it reports.
fn caught(fault: Fault) -> String {
    let run = || check_against_memory(|| MemoryHarness::new(fault));
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
fn a_store_that_forgets_keys_is_caught_in_few_steps() {
    let report = caught(Fault::NoDedup);
    assert!(report.contains("differ") && report.contains("SEMEL_MODEL_SEED="), "{report}");
    assert!((1..=2).contains(&steps(&report)), "it was not shortened: {report}");
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
    assert!(steps(&report) <= 3, "it was not shortened: {report}");
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
fn a_store_that_loses_a_command_is_caught() {
    let report = caught(Fault::LostCommand);
    assert!(steps(&report) <= 3, "it was not shortened: {report}");
}

#[test]
fn a_store_whose_leases_survive_a_crash_is_caught() {
    let report = caught(Fault::NoCrash);
    assert!(report.contains("Crash") || report.contains("counts differ"), "{report}");
}
