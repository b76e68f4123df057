//! Everything a store shows, as one value: to see that a refusal changed nothing, and that a crash lost nothing.

use semel_core::breaker::Breaker;
use semel_core::gate::Gate;
use semel_core::hold::Hold;
use semel_core::job::Job;
use semel_core::lifecycle::State;
use semel_core::rate::Bucket;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

use super::kit::Kit;
use crate::query::{JobQuery, PAGE_MAX};
use crate::stats::{QueueStats, Stats};

/// What a store shows at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    at: Timestamp,
    jobs: Vec<Job>,
    queues: Vec<QueueRecord>,
    schedules: Vec<ScheduleRecord>,
    api_keys: Vec<ApiKeyRecord>,
    replays: Vec<ReplayRecord>,
    stats: Stats,
    next_expiry: Option<Timestamp>,
}

/// How every case ends: the counters are right, and a crash loses nothing.
pub(super) async fn audit(kit: &mut Kit) {
    let before = Snapshot::of(kit).await;
    before.assert_counted("at the end of the case");
    kit.crash().await;
    let after = Snapshot::of(kit).await;
    after.assert_counted("after a crash at the end of the case");
    after.without_leases().assert_same(&before.without_leases(), "after a crash at the end of the case");
}

impl Snapshot {
    pub(super) async fn of(kit: &Kit) -> Self {
        let store = kit.store();
        Self {
            at: store.now(),
            jobs: kit.list(JobQuery { limit: PAGE_MAX, ..JobQuery::default() }).await,
            queues: store.queues().await.expect("the store lists queues"),
            schedules: store.schedules().await.expect("the store lists schedules"),
            api_keys: store.api_keys().await.expect("the store lists API keys"),
            replays: store.replays().await.expect("the store lists replays"),
            stats: store.stats().await.expect("the store counts"),
            next_expiry: kit.next_expiry().await,
        }
    }

    /// Asserts part by part, so that a failure shows what differs and not two pages of everything.
    pub(super) fn assert_same(&self, before: &Self, what: &str) {
        assert_eq!(self.jobs.len(), before.jobs.len(), "{what}: the number of jobs");
        for (now, then) in self.jobs.iter().zip(&before.jobs) {
            assert_eq!(now, then, "{what}: a job");
        }
        assert_eq!(self.queues, before.queues, "{what}: queues");
        assert_eq!(self.schedules, before.schedules, "{what}: schedules");
        assert_eq!(self.api_keys, before.api_keys, "{what}: API keys");
        assert_eq!(self.replays, before.replays, "{what}: replays");
        assert_eq!(self.stats, before.stats, "{what}: stats");
        assert_eq!(self.next_expiry, before.next_expiry, "{what}: the next expiry");
    }

    /// Asserts that the counters are what a count of the listed jobs gives. Jobs of a deleted queue, waiting for the
    /// next prune, are in no counter.
    pub(super) fn assert_counted(&self, when: &str) {
        let names: Vec<_> = self.queues.iter().map(|queue| &queue.name).collect();
        let listed: Vec<_> = self.stats.queues.iter().map(|entry| &entry.queue).collect();
        assert_eq!(listed, names, "{when}: there are counters for every queue, by name");
        for entry in &self.stats.queues {
            let mut counted =
                QueueStats { oldest_ready: entry.oldest_ready, ..QueueStats::empty(entry.queue.clone()) };
            self.jobs
                .iter()
                .filter(|job| job.spec.queue == entry.queue)
                .for_each(|job| count(&mut counted, job));
            assert_eq!(
                *entry, counted,
                "{when}: the counters of queue {} are those of its jobs",
                entry.queue
            );
        }
    }

    /// What must be the same before and after a crash: leases are gone, so what was with a worker waits again, and what
    /// the law lets a crash take (the trace of suppressed publishes, the use of a rate) is left out.
    fn without_leases(mut self) -> Self {
        for job in &mut self.jobs {
            job.duplicates = 0;
            if job.progress.state.is_leased() {
                job.progress.state = State::Pending;
            }
        }
        for entry in &mut self.stats.queues {
            entry.pending += std::mem::take(&mut entry.processing) + std::mem::take(&mut entry.awaiting_ack);
            entry.oldest_ready = None;
        }
        let now = self.at;
        self.queues.iter_mut().for_each(|queue| forget_probe(&mut queue.gate, now));
        self.next_expiry = None;
        self
    }
}

/// A probe is a lease, and dies with the process. Then another may go at once, which can be written in more than one way.
fn forget_probe(gate: &mut Gate, now: Timestamp) {
    gate.restarted();
    gate.bucket = Bucket::default();
    if matches!(gate.hold, Hold::Until(due) if due <= now) {
        gate.hold = Hold::Until(Timestamp::default());
    }
    if matches!(gate.breaker, Breaker::Open { until } if until <= now) {
        gate.breaker = Breaker::HalfOpen { probing: false };
    }
}

fn count(stats: &mut QueueStats, job: &Job) {
    let counter = match job.progress.state {
        State::Pending => &mut stats.pending,
        State::Processing => &mut stats.processing,
        State::AwaitingAck => &mut stats.awaiting_ack,
        State::Completed => &mut stats.completed,
        State::Dead => &mut stats.dead,
        State::Cancelled => &mut stats.cancelled,
    };
    *counter += 1;
}
