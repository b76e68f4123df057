//! A memory store with one law broken, and the harness that puts it in front of the suite.
//!
//! It keeps a log of everything it was asked. A flaw that loses something in a crash is then told as "as if this had never
//! been asked": the log is replayed into a fresh store without it.

pub(crate) mod after_crash;
pub(crate) mod by_hand;
pub(crate) mod on_the_way_in;
pub(crate) mod on_the_way_out;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::{
    Answer, Clock, Command, Health, JobQuery, KeyRecord, ManualClock, MemoryStore, Page, Stats, Store,
    StoreError,
};

/// One broken law: what is done differently, and nothing else. Every method by default does what is right.
#[async_trait]
pub(crate) trait Flaw: Default + Send + Sync + 'static {
    /// Changes one command on its way into the store.
    fn command(&self, command: Command) -> Command {
        command
    }

    /// Applies a batch.
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        store.apply(batch).await
    }

    /// Changes what a lease gives.
    fn deliveries(&self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        deliveries
    }

    /// How far ahead of the clock the store is while it does this.
    fn ahead(&self, _: &Asked) -> Millis {
        Millis::ZERO
    }

    /// Whether a crash makes the store forget that it was asked this. `last` is whether it is the newest in the log.
    fn forgets(&self, _: &Asked, _last: bool) -> bool {
        false
    }

    /// What happens to the store by itself when its process dies.
    fn at_crash(&self) -> Vec<Command> {
        Vec::new()
    }

    /// Changes a page of jobs.
    fn page(&self, page: Page<Job>) -> Page<Job> {
        page
    }

    /// Changes the counts.
    fn stats(&self, stats: Stats) -> Stats {
        stats
    }

    /// Changes the time a store names, for its next job or the end of a lease.
    fn next(&self, time: Option<Timestamp>) -> Option<Timestamp> {
        time
    }

    /// Whether closing works.
    fn closes(&self) -> bool {
        true
    }
}

/// Something that was asked of the store.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Apply(Vec<Command>),
    Lease(LeaseRequest),
    Crash,
}

/// The store with the flaw.
pub(crate) struct Broken<F> {
    flaw: F,
    clock: Arc<ManualClock>,
    hasty: Arc<Hasty>,
    inner: MemoryStore,
    log: Mutex<Vec<(Timestamp, Asked)>>,
}

/// The clock of the inner store, which a flaw can set ahead for one call.
#[derive(Debug)]
struct Hasty {
    clock: Arc<ManualClock>,
    ahead: AtomicU64,
}

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        self.clock.now().plus(Millis::from_millis(self.ahead.load(Ordering::SeqCst)))
    }
}

/// Where every clock starts.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

impl<F: Flaw> Broken<F> {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let hasty = Arc::new(Hasty { clock: clock.clone(), ahead: AtomicU64::new(0) });
        let inner = MemoryStore::new(hasty.clone());
        Self { flaw: F::default(), clock, hasty, inner, log: Mutex::default() }
    }

    fn note(&self, asked: Asked) {
        self.log.lock().expect("no call panics with the log").push((self.now(), asked));
    }

    fn hurry(&self, span: Millis) {
        self.hasty.ahead.store(span.millis(), Ordering::SeqCst);
    }

    /// The store as it opens after a crash: what it was asked is done again, but for what the flaw forgets.
    async fn reopened(&self) -> Self {
        let fresh = Self::new();
        let log = self.log.lock().expect("no call panics with the log").clone();
        let kept = log.len().saturating_sub(1);
        for (n, (at, asked)) in log.into_iter().enumerate() {
            fresh.clock.advance_to(at);
            if !self.flaw.forgets(&asked, n == kept) {
                fresh.redo(asked).await;
            }
        }
        fresh.clock.advance_to(self.now());
        fresh.redo(Asked::Apply(self.flaw.at_crash())).await;
        fresh.redo(Asked::Crash).await;
        fresh
    }

    async fn redo(&self, asked: Asked) {
        match asked {
            Asked::Apply(batch) => drop(self.apply(batch).await.expect("what was taken once is taken again")),
            Asked::Lease(request) => drop(self.lease(request).await.expect("an open store leases")),
            Asked::Crash => {
                self.note(Asked::Crash);
                self.inner.crash();
            }
        }
    }
}

#[async_trait]
impl<F: Flaw> Store for Broken<F> {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let asked = Asked::Apply(batch.clone());
        let batch = batch.into_iter().map(|command| self.flaw.command(command)).collect();
        self.hurry(self.flaw.ahead(&asked));
        let answers = self.flaw.apply(&self.inner, batch).await;
        self.hurry(Millis::ZERO);
        // What was not done is not in the log, or a crash would do it.
        if answers.is_ok() {
            self.note(asked);
        }
        answers
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let asked = Asked::Lease(request.clone());
        self.hurry(self.flaw.ahead(&asked));
        let deliveries = self.inner.lease(request).await;
        self.hurry(Millis::ZERO);
        let deliveries = self.flaw.deliveries(deliveries?);
        self.note(asked);
        Ok(deliveries)
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.flaw.next(self.inner.next_due(queue).await?))
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.flaw.next(self.inner.next_expiry().await?))
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.job(id).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        Ok(self.flaw.page(self.inner.jobs(query).await?))
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.inner.key(queue, key).await
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
        Ok(self.flaw.stats(self.inner.stats().await?))
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        if self.flaw.closes() { self.inner.close().await } else { Ok(()) }
    }
}

/// The harness of a broken store.
pub(crate) struct BrokenHarness<F> {
    store: Arc<Broken<F>>,
}

impl<F: Flaw> BrokenHarness<F> {
    pub(crate) fn new() -> Self {
        Self { store: Arc::new(Broken::new()) }
    }
}

#[async_trait]
impl<F: Flaw> Harness for BrokenHarness<F> {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, span: Millis) {
        self.store.clock.advance(span);
    }

    async fn crash(&mut self) {
        self.store = Arc::new(self.store.reopened().await);
    }
}
