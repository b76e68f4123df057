//! Churn: millions of jobs come and go, with retries, expiry, prunes and reopens; then everything that should be there is
//! looked up and everything that should be gone is looked for.

#[path = "soak/mod.rs"]
mod jobs;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::{KEPT, Life, WINDOW, is_kept, key, number, payload, queue, queues};
use semel_core::ids::JobId;
use semel_core::lease::{Delivery, LEASE_BATCH_MAX, LeaseRequest};
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::publish::Published;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};
use semel_proof::dice::Dice;
use semel_proof::workload::block_on;
use semel_store::query::PAGE_MAX;
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
    fn new(dir: PathBuf) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_767_225_600_000)));
        let store = open(&dir, &clock);
        let make = queues().into_iter().map(|(name, config)| Command::PutQueue { name, config: Box::new(config) });
        block_on(store.apply(make.collect())).unwrap();
        let progress = Progress { began: Instant::now(), told: Instant::now() };
        Self { dir, clock, store, dice: Dice::new(77), kept: vec![], recent: VecDeque::new(), next: 0, progress }
    }

    /// One turn: new jobs and repeats, what is ready is worked off, time passes, old things are dropped.
    fn turn(&mut self) {
        self.publish();
        self.work();
        self.clock.advance(TICK);
        let upkeep = vec![Command::Rescue { limit: 500 }, Command::Prune { limit: 500 }, Command::Prune { limit: 500 }];
        block_on(self.store.apply(upkeep)).unwrap().into_iter().for_each(|answer| drop(answer.unwrap()));
    }

    fn publish(&mut self) {
        let new = self.next..self.next + BATCH;
        self.next = new.end;
        let repeats: Vec<_> = (0..BATCH / 20).filter_map(|_| self.some_recent()).collect();
        let again = repeats.iter().map(|(n, _)| jobs::command(*n));
        let answers = block_on(self.store.apply(new.clone().map(jobs::command).chain(again).collect())).unwrap();
        let mut answers = answers.into_iter().map(|answer| match answer {
            Ok(Reply::Published(published)) => published,
            other => panic!("{other:?}"),
        });
        let created: Vec<_> = new.zip(answers.by_ref().take(usize::try_from(BATCH).unwrap())).collect();
        for ((n, id), answer) in repeats.into_iter().zip(answers) {
            assert_eq!((answer.id, answer.deduplicated), (id, true), "a repeat of job {n}");
        }
        created.iter().for_each(|(n, published)| self.remember(*n, published));
        let off = created.iter().filter(|(n, _)| Life::of(*n) == Life::Cancelled).map(|(_, p)| Command::Cancel(p.id));
        block_on(self.store.apply(off.collect())).unwrap().into_iter().for_each(|answer| drop(answer.unwrap()));
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

    /// Leases once from each queue and does with each job what its life says. Returns how many there were.
    fn work(&mut self) -> usize {
        let mut worked = 0;
        for (name, _) in queues() {
            let request = LeaseRequest::new(name, LEASE_BATCH_MAX, Some(Millis::from_secs(5))).unwrap();
            let deliveries = block_on(self.store.lease(request)).unwrap();
            worked += deliveries.len();
            let settles: Vec<_> = deliveries.iter().filter_map(settle).collect();
            for (answer, delivery) in block_on(self.store.apply(settles)).unwrap().into_iter().zip(&deliveries) {
                assert!(answer.is_ok(), "{answer:?} for {delivery:?}");
            }
        }
        worked
    }

    fn reopen(&mut self) {
        block_on(self.store.close()).unwrap();
        // The old store must be gone before the new one can have the directory.
        self.store = Arc::new(semel_store::MemoryStore::new(self.clock.clone()));
        self.store = open(&self.dir, &self.clock);
    }

    /// Works off what is left, and lets everything that may expire expire.
    fn settle_down(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "jobs are left that nobody gets");
            self.work();
            block_on(self.store.apply(vec![Command::Rescue { limit: 1000 }])).unwrap();
            let stats = block_on(self.store.stats()).unwrap();
            if stats.queues.iter().all(|queue| queue.unfinished() == 0) {
                break;
            }
            self.clock.advance(Millis::from_millis(500));
        }
        self.clock.advance(WINDOW);
        // One pass may have been half way: two whole ones see everything.
        for _ in 0..2 {
            while self.prune() {
                self.progress.tell(|| "dropping what is over".into());
            }
        }
    }

    fn prune(&self) -> bool {
        match block_on(self.store.apply(vec![Command::Prune { limit: 1000 }])).unwrap().pop() {
            Some(Ok(Reply::Pruned { more, .. })) => more,
            other => panic!("{other:?}"),
        }
    }

    /// Every job in the store is one that is kept, as it should be, and none of those is missing.
    fn verify_jobs(&mut self) {
        let mut query = JobQuery { limit: PAGE_MAX, ..JobQuery::default() };
        let mut seen = 0;
        loop {
            let page = block_on(self.store.jobs(query.clone())).unwrap();
            for job in &page.items {
                let n = number(job.spec.key.as_ref().unwrap());
                assert!(is_kept(n), "job {n} should be gone: {job:?}");
                assert_eq!(job.id, self.kept[usize::try_from(n / KEPT).unwrap()], "job {n}");
                assert_eq!(job.spec.payload, Some(payload(n)), "job {n}");
                assert_eq!(job.progress.state, Life::of(n).end(), "job {n}");
                assert!(Life::of(n).attempts().contains(&job.progress.attempts), "job {n}: {job:?}");
                assert_eq!(job.progress.deferrals, u32::from(Life::of(n) == Life::Deferred), "job {n}");
                seen += 1;
            }
            self.progress.tell(|| format!("{seen} jobs verified"));
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, self.kept.len(), "jobs that should have been kept are missing");
        let counted: u64 = block_on(self.store.stats()).unwrap().queues.iter().map(|q| q.completed + q.dead + q.cancelled).sum();
        assert_eq!(counted, self.kept.len() as u64, "the counters");
    }

    /// Every key that is kept leads to its job, and a key that is over leads to none.
    fn verify_keys(&mut self) {
        let gone_share = (self.next / 1_000_000).max(1);
        for n in (0..self.next).filter(|&n| is_kept(n) || n % gone_share == 0) {
            let found = block_on(self.store.key(&queue(n), &key(n))).unwrap().map(|record| record.job.id);
            let expected = is_kept(n).then(|| self.kept[usize::try_from(n / KEPT).unwrap()]);
            assert_eq!(found, expected, "key of job {n}");
            self.progress.tell(|| format!("keys up to {n} verified"));
        }
    }

    /// A key that is over can be used again, and one that is kept cannot.
    fn verify_publishes(&self) {
        for n in (0..200).chain(self.next - 200..self.next) {
            let answer = block_on(self.store.apply(vec![jobs::command(n)])).unwrap().pop();
            let Some(Ok(Reply::Published(published))) = answer else { panic!("{answer:?}") };
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
        // Half of the time it would be forgotten for ever: a lease lost in a reopen does not count as an attempt.
        Life::Forgotten if first => return None,
        _ => Outcome::Done { result: None, effect: None },
    };
    Some(Command::Settle(Settle::new(delivery.id, Some(delivery.token), outcome, Report::default()).unwrap()))
}

fn memory_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[test]
fn heavy_soak() {
    let jobs: u64 = std::env::var("SEMEL_SOAK_JOBS").map_or(200_000, |text| text.parse().expect("a number"));
    let home = tempfile::tempdir().unwrap();
    let mut soak = Soak::new(home.path().join("store"));
    let turns = jobs.div_ceil(BATCH);
    for turn in 1..=turns {
        soak.turn();
        if turn % (turns / REOPENS).max(1) == 0 {
            soak.reopen();
        }
        let next = soak.next;
        soak.progress.tell(|| format!("{next} of {jobs} jobs"));
    }
    soak.settle_down();
    soak.verify_jobs();
    soak.verify_keys();
    soak.reopen();
    soak.verify_jobs();
    soak.verify_keys();
    soak.verify_publishes();
    let memory = memory_in_use();
    println!("soak: {} jobs, {} kept, all found; {} MB at most", soak.next, soak.kept.len(), memory >> 20);
    assert!(memory < MEMORY_MAX, "{memory} bytes of memory");
}
