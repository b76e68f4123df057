//! The Store contract, written as law.
//!
//! The words MUST, MUST NOT and MAY are meant. The conformance suite tests each sentence that has one; a backend that
//! passes the suite keeps the law, and nothing else decides.

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

use crate::command::{Answer, Command};
use crate::error::StoreError;
use crate::health::Health;
use crate::query::{JobQuery, KeyRecord, Page};
use crate::stats::Stats;

/// Most commands one [`Store::apply`] takes. A larger batch gains nothing and makes everybody in it wait longer.
pub const BATCH_MAX: usize = 1024;

/// A place where jobs are kept.
///
/// Decisions are not made here: every "may it?", "retry or dead?", "same payload?" is a function of `semel-core`, and a
/// backend reads, asks it, and writes. Time is the store's own ([`Store::now`]): it was given a clock when it was
/// opened, and no caller passes a time in, because on a shared store only one clock may decide.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies commands in order and answers each.
    ///
    /// - Precondition: at most [`BATCH_MAX`] commands; more MUST be an error and change nothing.
    /// - There MUST be one answer per command, in order. A refused command MUST change nothing and MUST NOT keep the
    ///   others from being applied. A later command MUST see what an earlier one of the same batch did.
    /// - Each command is atomic: after a crash it has happened entirely or not at all.
    /// - Durability: when this returns `Ok`, every change MUST survive a power cut. A publish that is answered with an
    ///   earlier job MUST NOT be answered before that job is durable. What is kept only to inform people (the trace of
    ///   suppressed publishes) and extensions of leases MAY be lost in a crash.
    /// - On `Err` other than [`StoreError::Unknown`] nothing of the batch has happened, nor will. On `Unknown` each
    ///   command may have happened; repeating a publish with its key, or a settle with its token, MUST tell.
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError>;

    /// Leases jobs that are ready, in ready order: priority descending, then due time, then id.
    ///
    /// - MUST NOT return a job before it is due, one that another lease holds, one whose group has no room, or more than
    ///   the queue's gate (pause, hold, breaker, rate, concurrency) allows. An unknown queue has no jobs.
    /// - Every delivery's token MUST be greater than any token that job ever had, also across crashes.
    /// - A job that is returned MUST be durable. The lease itself MAY be lost in a crash: then the job is ready again.
    /// - A lease that ran out keeps its job until [`Command::Rescue`] ends it.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError>;

    /// When [`Store::lease`] may next have something for this queue: now or earlier if it may at once, `None` if nothing
    /// is waiting that only time would bring. MAY be early, MUST NOT be late.
    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError>;

    /// When the earliest lease runs out, so that upkeep knows when to send [`Command::Rescue`].
    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError>;

    /// One job.
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Jobs, newest first. A walk along the cursors MUST meet every job that matched from its start to its end, once.
    /// A page MAY hold fewer than asked and still name a next one: the work of one call is bounded. A query that
    /// [`JobQuery::validate`] refuses MUST be answered with [`StoreError::Invalid`].
    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError>;

    /// What is known of a key: the newest job published under it, whether or not it still holds it.
    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError>;

    /// One queue.
    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError>;

    /// All queues, by name.
    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError>;

    /// All schedules, by name.
    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError>;

    /// All API keys, by id.
    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError>;

    /// All replay tasks, by id.
    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError>;

    /// Counts of every queue.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// How the store itself is. MUST NOT read through jobs or keys: whoever watches asks every few seconds.
    async fn health(&self) -> Result<Health, StoreError>;

    /// The store's time.
    fn now(&self) -> Timestamp;

    /// Ends the store: what was answered is durable, later calls get [`StoreError::Closed`]. Closing twice is fine.
    async fn close(&self) -> Result<(), StoreError>;
}
