//! Churn: millions of jobs come and go, with retries, expiry, prunes and reopens; then everything that should be there is
//! looked up and everything that should be gone is looked for.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

#[path = "soak/mod.rs"]
mod jobs;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::{KEPT, Life, WINDOW, is_kept, key, number, payload, queue, queues};
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::lease::{Delivery, LEASE_BATCH_MAX, LeaseRequest};
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::publish::Published;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_proof::dice::Dice;
use semel_proof::settings;
use semel_proof::workload::block_on;
use semel_store::query::PAGE_MAX;
use semel_store::store::BATCH_MAX;
use semel_store::{Command, JobQuery, ManualClock, Reply, Store};
use semel_store_embedded::{EmbeddedStore, Options};

/// Jobs published in one commit.
const BATCH: u64 = 128;
/// Store time that passes with each batch: with it some sixty thousand jobs are within their window.
const TICK: Millis = Millis::from_millis(128);
/// How many of the newest ids are remembered, to repeat their publishes: fewer than are within their window.
const RECENT: usize = 20_000;
/// Times the store is closed and opened again.
const REOPENS: u64 = 10;
/// The process must not need more than this, however many jobs went through it.
const MEMORY_MAX: u64 = 1 << 30;

struct Soak {
    dir: PathBuf,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    dice: Dice,
    /// The ids of the jobs that are kept: job `n` at `n / KEPT`.
    kept: Vec<JobId>,
    /// The newest jobs and their ids.
    recent: VecDeque<(u64, JobId)>,
    next: u64,
    progress: Progress,
}

struct Progress {
    began: Instant,
    told: Instant,
}

impl Progress {
    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.told.elapsed() >= Duration::from_secs(5) {
            self.told = Instant::now();
            println!("soak {:5} s: {}", self.began.elapsed().as_secs(), line());
        }
    }
}

fn open(dir: &std::path::Path, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let options = Options { clock: clock.clone(), run_keys: 20_000, reserve_bytes: 0, ..Options::default() };
    Arc::new(EmbeddedStore::open(dir, options).unwrap())
}

impl Soak {
    async fn new(dir: PathBuf) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_767_225_600_000)));
        let store = open(&dir, &clock);
        let make =
            queues().into_iter().map(|(name, config)| Command::PutQueue { name, config: Box::new(config) });
        store.apply(make.collect()).await.unwrap();
        let progress = Progress { began: Instant::now(), told: Instant::now() };
        Self {
            dir,
            clock,
            store,
            dice: Dice::new(77),
            kept: vec![],
            recent: VecDeque::new(),
            next: 0,
            progress,
        }
    }

    async fn apply(&self, batch: Vec<Command>) -> Vec<Reply> {
        let answers = self.store.apply(batch).await.unwrap();
        answers.into_iter().map(|answer| answer.expect("nothing that is asked here can be refused")).collect()
    }

    /// One turn: new jobs and repeats, what is ready is worked off, time passes, old things are dropped.
    async fn turn(&mut self) {
        let mut batch = self.publish().await;
        batch.extend(self.lease().await.iter().filter_map(settle));
        batch.extend([
            Command::Rescue { limit: 500 },
            Command::Prune { limit: 500 },
            Command::Prune { limit: 500 },
        ]);
        for part in batch.chunks(BATCH_MAX) {
            self.apply(part.to_vec()).await;
        }
        self.clock.advance(TICK);
    }

    /// Publishes new jobs and repeats recent ones. Returns the cancellations that are part of their lives.
    async fn publish(&mut self) -> Vec<Command> {
        let new = self.next..self.next + BATCH;
        self.next = new.end;
        let repeats: Vec<_> = (0..BATCH / 20).filter_map(|_| self.some_recent()).collect();
        let again = repeats.iter().map(|(n, _)| jobs::command(*n));
        let replies = self.apply(new.clone().map(jobs::command).chain(again).collect()).await;
        let mut published = replies.into_iter().map(|reply| match reply {
            Reply::Published(published) => published,
            other => panic!("{other:?}"),
        });
        let created: Vec<_> = new.zip(published.by_ref().take(usize::try_from(BATCH).unwrap())).collect();
        for ((n, id), answer) in repeats.into_iter().zip(published) {
            assert_eq!((answer.id, answer.deduplicated), (id, true), "a repeat of job {n}");
        }
        created.iter().for_each(|(n, published)| self.remember(*n, published));
        let off = created.iter().filter(|(n, _)| Life::of(*n) == Life::Cancelled);
        off.map(|(_, published)| Command::Cancel(published.id)).collect()
    }

    fn some_recent(&mut self) -> Option<(u64, JobId)> {
        let at = self.dice.index(self.recent.len().max(1));
        self.recent.get(at).copied()
    }

    fn remember(&mut self, n: u64, published: &Published) {
        assert!(!published.deduplicated, "job {n} is new");
        if is_kept(n) {
            self.kept.push(published.id);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((n, published.id));
    }

    /// Leases once from each queue.
    async fn lease(&self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for (name, _) in queues() {
            let request = LeaseRequest::new(name, LEASE_BATCH_MAX, Some(Millis::from_secs(5))).unwrap();
            deliveries.extend(self.store.lease(request).await.unwrap());
        }
        deliveries
    }

    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        // The old store must be gone before the new one can have the directory.
        self.store = Arc::new(semel_store::MemoryStore::new(self.clock.clone()));
        self.store = open(&self.dir, &self.clock);
    }

    /// Works off what is left, and lets everything that may expire expire.
    async fn settle_down(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "jobs are left that nobody gets");
            let mut batch: Vec<_> = self.lease().await.iter().filter_map(settle).collect();
            batch.push(Command::Rescue { limit: 1000 });
            for part in batch.chunks(BATCH_MAX) {
                self.apply(part.to_vec()).await;
            }
            let stats = self.store.stats().await.unwrap();
            if stats.queues.iter().all(|queue| queue.unfinished() == 0) {
                break;
            }
            self.clock.advance(Millis::from_millis(500));
        }
        self.clock.advance(WINDOW);
        // One pass may have been half way: two whole ones see everything.
        for _ in 0..2 {
            while self.prune().await {
                self.progress.tell(|| "dropping what is over".into());
            }
        }
    }

    async fn prune(&self) -> bool {
        match self.apply(vec![Command::Prune { limit: 1000 }]).await.pop() {
            Some(Reply::Pruned { more, .. }) => more,
            other => panic!("{other:?}"),
        }
    }

    /// Every job in the store is one that is kept, as it should be, and none of those is missing.
    async fn verify_jobs(&mut self) {
        let mut query = JobQuery { limit: PAGE_MAX, ..JobQuery::default() };
        let mut seen = 0;
        loop {
            let page = self.store.jobs(query.clone()).await.unwrap();
            page.items.iter().for_each(|job| self.verify_job(job));
            seen += page.items.len();
            self.progress.tell(|| format!("{seen} jobs verified"));
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, self.kept.len(), "jobs that should have been kept are missing");
        let stats = self.store.stats().await.unwrap();
        let counted: u64 =
            stats.queues.iter().map(|queue| queue.completed + queue.dead + queue.cancelled).sum();
        assert_eq!(counted, self.kept.len() as u64, "the counters");
    }

    fn verify_job(&self, job: &Job) {
        let n = number(job.spec.key.as_ref().unwrap());
        assert!(is_kept(n), "job {n} should be gone: {job:?}");
        assert_eq!(job.id, self.kept[usize::try_from(n / KEPT).unwrap()], "job {n}");
        assert_eq!(job.spec.payload, Some(payload(n)), "job {n}");
        assert_eq!(job.progress.state, Life::of(n).end(), "job {n}");
        assert!(Life::of(n).attempts().contains(&job.progress.attempts), "job {n}: {job:?}");
        assert_eq!(job.progress.deferrals, u32::from(Life::of(n) == Life::Deferred), "job {n}");
    }

    /// Every key that is kept leads to its job, and a key that is over leads to none.
    async fn verify_keys(&mut self) {
        // Of the millions of keys that are over a share is enough: one that came back would have come with its neighbours.
        let share = (self.next / 50_000).max(1);
        for n in (0..self.next).filter(|&n| is_kept(n) || n.is_multiple_of(share)) {
            let found = self.store.key(&queue(n), &key(n)).await.unwrap().map(|record| record.job.id);
            let expected = is_kept(n).then(|| self.kept[usize::try_from(n / KEPT).unwrap()]);
            assert_eq!(found, expected, "key of job {n}");
            self.progress.tell(|| format!("keys up to {n} verified"));
        }
    }

    /// A key that is over can be used again, and one that is kept cannot.
    async fn verify_publishes(&self) {
        for n in (0..200).chain(self.next - 200..self.next) {
            let reply = self.apply(vec![jobs::command(n)]).await.pop();
            let Some(Reply::Published(published)) = reply else { panic!("{reply:?}") };
            assert_eq!(published.deduplicated, is_kept(n), "job {n}");
        }
    }
}

/// What becomes of a delivery; `None` leaves it to run out.
fn settle(delivery: &Delivery) -> Option<Command> {
    let life = Life::of(number(delivery.spec.key.as_ref().unwrap()));
    let first = delivery.attempt == 1 && delivery.deferrals == 0;
    let outcome = match life {
        Life::Rejected => Outcome::Rejected { error: "never".into() },
        Life::Bumpy if first => Outcome::Failed { error: "not this time".into() },
        Life::Deferred if first => Outcome::Backpressure {
            retry_after: Some(Millis::from_secs(1)),
            scope: Some(DeferScope::Job),
            reason: None,
        },
        Life::Forgotten if first => return None,
        _ => Outcome::Done { result: None, effect: None },
    };
    Some(Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap()))
}

/// The most memory this process ever had.
fn memory_at_most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or_default()
        * 1024
}

async fn run(jobs: u64, dir: PathBuf) {
    let mut soak = Soak::new(dir).await;
    let turns = jobs.div_ceil(BATCH);
    for turn in 1..=turns {
        soak.turn().await;
        if turn % (turns / REOPENS).max(1) == 0 {
            soak.reopen().await;
        }
        let next = soak.next;
        soak.progress.tell(|| format!("{next} of {jobs} jobs"));
    }
    soak.settle_down().await;
    for reopened in [false, true] {
        if reopened {
            soak.reopen().await;
        }
        soak.verify_jobs().await;
        soak.verify_keys().await;
    }
    soak.verify_publishes().await;
    let memory = memory_at_most();
    println!("soak: {} jobs, {} kept, all found; {} MB at most", soak.next, soak.kept.len(), memory >> 20);
    assert!(memory < MEMORY_MAX, "{memory} bytes of memory");
}

#[test]
fn heavy_soak() {
    let jobs = settings::number("SEMEL_SOAK_JOBS", 100_000);
    let home = tempfile::tempdir().unwrap();
    block_on(run(jobs, home.path().join("store")));
}
