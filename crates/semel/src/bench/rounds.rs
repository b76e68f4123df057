//! The order of a run: preload once, then every measure once per round.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use semel_store::SystemClock;

use super::drive::{Driver, Tally, per_second};
use super::measure::commit::{self, Commits};
use super::measure::expiry::{self, Expiry};
use super::measure::lanes::{Lanes, Rates};
use super::measure::lives::Lives;
use super::measure::preload;
use super::measure::restart::{self, PageCache, Restart};
use super::measure::single::{self, Single};
use super::plan::Plan;
use super::raw::RawLog;
use super::report::{Figure, Measure};
use super::targets;
use super::workload::Workload;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text;

/// What all rounds found.
#[derive(Debug)]
pub(crate) struct Rounds {
    preload_rate: f64,
    restarts: Vec<Restart>,
    cold: Restart,
    rounds: Vec<Round>,
}

/// What one round found.
#[derive(Debug)]
struct Round {
    rates: Rates,
    commits: Commits,
    lives_full: f64,
    keys_present: f64,
    expiry: Expiry,
    single: Single,
}

/// Runs the plan in `scratch`.
pub(crate) fn run(plan: &Plan, scratch: &Path, progress: &mut Progress) -> Result<Rounds, Failure> {
    let full = scratch.join("full");
    let mut workload = Workload::after(0)?;
    let preload_rate = fill(plan, &full, &mut workload, progress)?;
    let restarts = restarts(plan, &full, workload.published(), progress)?;
    let mut workload = Workload::after(restarts.last().map_or(workload.published(), |r| r.published))?;
    let driver = Driver::open(&full, Arc::new(SystemClock::new()), workload.queues())?;
    let mut rounds = Vec::new();
    for number in 1..=plan.runs {
        progress.note(&format!("round {number} of {}", plan.runs));
        rounds.push(round(plan, scratch, &driver, &mut workload, progress)?);
    }
    driver.close()?;
    // Last of all: a page cache that was dropped comes back in other pieces, and would disturb what is measured after it.
    let cold = restart::run(&full, workload.published(), restart_jobs(plan), PageCache::Cold, progress)?;
    Ok(Rounds { preload_rate, restarts, cold, rounds })
}

fn fill(plan: &Plan, dir: &Path, workload: &mut Workload, progress: &mut Progress) -> Result<f64, Failure> {
    let driver = Driver::open(dir, Arc::new(SystemClock::new()), workload.queues())?;
    let tally = preload::run(&driver, workload, plan.keys, progress)?;
    driver.close()?;
    let rate = tally.publishes_per_second();
    progress.note(&format!("preloaded {} jobs at {} publishes/s", text::count(plan.keys), text::rate(rate)));
    Ok(rate)
}

/// Jobs a process publishes before it is killed: enough to have filled its caches, not so many that the store outgrows
/// its plan.
fn restart_jobs(plan: &Plan) -> u64 {
    plan.jobs.min(plan.keys / 64).max(1)
}

/// One kill per round.
fn restarts(
    plan: &Plan,
    dir: &Path,
    published: u64,
    progress: &mut Progress,
) -> Result<Vec<Restart>, Failure> {
    let mut restarts: Vec<Restart> = Vec::new();
    for _ in 0..plan.runs {
        let published = restarts.last().map_or(published, |before| before.published);
        restarts.push(restart::run(dir, published, restart_jobs(plan), PageCache::Warm, progress)?);
    }
    Ok(restarts)
}

fn round(
    plan: &Plan,
    scratch: &Path,
    full: &Driver,
    workload: &mut Workload,
    progress: &mut Progress,
) -> Result<Round, Failure> {
    let dir = scratch.join("round");
    fs::create_dir(&dir).map_err(Failure::io("make a directory for the round"))?;
    let mut raw = RawLog::create(&dir)?;
    let rates = rates(plan, &dir, &mut raw, (full, workload), progress)?;
    let commits = commit::run(full, workload, plan.jobs, progress)?;
    let lives_full = lives_on(full, workload, plan.jobs / 4, progress)?;
    let expiry = expiry::run(&dir.join("expiry"), plan.expiring, plan.jobs, progress)?;
    let single = single::run(&dir.join("single"), &mut raw, plan.singles, progress)?;
    fs::remove_dir_all(&dir).map_err(Failure::io("remove the directory of the round"))?;
    let keys_present = float(workload.published());
    Ok(Round { rates, commits, lives_full, keys_present, expiry, single })
}

fn rates(
    plan: &Plan,
    dir: &Path,
    raw: &mut RawLog,
    full: (&Driver, &mut Workload),
    progress: &mut Progress,
) -> Result<Rates, Failure> {
    let (mut publishes, mut lives) = (Workload::after(0)?, Workload::after(0)?);
    let clock = || Arc::new(SystemClock::new());
    let empty = Driver::open(&dir.join("empty"), clock(), publishes.queues())?;
    let living = Driver::open(&dir.join("lives"), clock(), lives.queues())?;
    let lanes = Lanes { raw, empty: (&empty, &mut publishes), full, lives: Lives::new(&living, &mut lives) };
    let rates = lanes.run(plan.jobs, progress)?;
    empty.close()?;
    living.close()?;
    Ok(rates)
}

/// Whole lives on the full store: the oldest of the preloaded jobs are worked off while new ones come.
fn lives_on(
    full: &Driver,
    workload: &mut Workload,
    jobs: u64,
    progress: &mut Progress,
) -> Result<f64, Failure> {
    progress.start("whole lives, all keys", jobs);
    let mut lives = Lives::new(full, workload);
    let tally: Tally = lives.run(jobs, progress)?;
    Ok(per_second(tally.completed, tally.busy))
}

impl Rounds {
    fn each(&self, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    fn each_handed(&self) -> Vec<f64> {
        self.rounds.iter().filter_map(|r| r.commits.handed_per_job).collect()
    }

    fn each_restart(&self, figure: impl Fn(&Restart) -> Option<f64>) -> Vec<f64> {
        self.restarts.iter().filter_map(figure).collect()
    }

    /// The figures that are judged. Ratios are taken within a round, where both sides met the same machine.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let resident = |r: &Restart| r.memory.map(|m| float(m.resident));
        vec![
            Measure::judge(&targets::PUBLISH, self.each(|r| r.rates.empty / r.rates.raw)),
            Measure::judge(&targets::PUBLISH_FULL, self.each(|r| r.rates.full / r.rates.empty)),
            Measure::judge(&targets::LIVES, self.each(|r| r.rates.lives / r.rates.empty)),
            Measure::judge(
                &targets::BYTES,
                self.rounds.iter().filter_map(|r| r.commits.bytes_per_job).collect(),
            ),
            Measure::judge(&targets::LATENCY_P99, self.each(|r| r.commits.p99)),
            Measure::judge(&targets::LATENCY_P999, self.each(|r| r.commits.p999)),
            Measure::judge(&targets::MEMORY, self.each_restart(resident)),
            Measure::judge(&targets::OPEN, self.each_restart(|r| Some(r.opened.answered_seconds))),
            Measure::judge(&targets::EXPIRY, self.each(|r| r.expiry.during / r.expiry.before)),
            Measure::judge(&targets::SINGLE, self.each(|r| r.single.store / r.single.raw)),
        ]
    }

    /// The figures behind them.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        const RATE: &str = "publishes/s";
        vec![
            Figure::new("raw append + fdatasync, batches of 128", RATE, self.each(|r| r.rates.raw)),
            Figure::new("empty store", RATE, self.each(|r| r.rates.empty)),
            Figure::new("all keys present", RATE, self.each(|r| r.rates.full)),
            Figure::new("all keys present, by the wall clock", RATE, self.each(|r| r.commits.wall_rate)),
            Figure::new("preload", RATE, vec![self.preload_rate]),
            Figure::new("keys present at the end of the round", "keys", self.each(|r| r.keys_present)),
            Figure::new("repeats answered with the first job", "share", self.each(|r| r.rates.deduplicated)),
            Figure::new("whole lives, empty store", "lives/s", self.each(|r| r.rates.lives)),
            Figure::new("whole lives, all keys present", "lives/s", self.each(|r| r.lives_full)),
            Figure::new("commit latency p50", "ms", self.each(|r| r.commits.p50)),
            Figure::new("commit latency p99", "ms", self.each(|r| r.commits.p99)),
            Figure::new("commit latency p99.9", "ms", self.each(|r| r.commits.p999)),
            Figure::new("commit latency, worst", "ms", self.each(|r| r.commits.max)),
            Figure::new("bytes handed to write(2) per job", "bytes", self.each_handed()),
            Figure::new(
                "memory at its peak",
                "MiB",
                self.each_restart(|r| r.memory.map(|m| float(m.peak) / 1_048_576.0)),
            ),
            Figure::new(
                "open alone, warm page cache",
                "s",
                self.each_restart(|r| Some(r.opened.open_seconds)),
            ),
            Figure::new(
                "open and first answers, cold page cache",
                "s",
                vec![self.cold.opened.answered_seconds],
            ),
            Figure::new("before expiry", RATE, self.each(|r| r.expiry.before)),
            Figure::new("during expiry", RATE, self.each(|r| r.expiry.during)),
            Figure::new("one at a time, raw append + fdatasync", "appends/s", self.each(|r| r.single.raw)),
            Figure::new("one at a time", RATE, self.each(|r| r.single.store)),
        ]
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and keys are far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
