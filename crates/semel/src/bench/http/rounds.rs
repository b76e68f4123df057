//! The order of a run: every measure once per round, what is compared right after each other.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use semel_store::SystemClock;
use tokio::runtime::Runtime;

use super::super::drive::{Driver, Tally};
use super::super::report::{Figure, Measure};
use super::super::workload::Workload;
use super::load::{Load, Numbers};
use super::server::Server;
use super::{Plan, flows, load, many, targets};
use crate::failure::Failure;
use crate::progress::Progress;

/// Jobs of one apply when the store's own rate is measured: the largest batch that group commit makes.
const STORE_BATCH: usize = 256;

/// Steady jobs per second.
const STEADY_RATE: u32 = 200;

/// What all rounds found.
#[derive(Debug)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    rest: f64,
    loaded: f64,
    binary: f64,
}

/// What one round found.
#[derive(Debug)]
struct Round {
    limit: f64,
    limit_p99: f64,
    limit_cpu: f64,
    single: f64,
    single_p50: f64,
    single_p99: f64,
    cpu: f64,
    flushes: f64,
    store: f64,
    batch: f64,
    push: f64,
    pull: f64,
    steady: flows::Steady,
    many: many::Rates,
}

/// Runs the plan in `scratch`.
pub(super) fn run(plan: &Plan, scratch: &Path, progress: &mut Progress) -> Result<Rounds, Failure> {
    let runtime = super::runtime()?;
    let mut rounds = Vec::new();
    for number in 1..=plan.runs {
        progress.note(&format!("round {number} of {}", plan.runs));
        rounds.push(round(plan, &runtime, &scratch.join(number.to_string()), progress)?);
    }
    let (rest, loaded) = memory(plan, &runtime, &scratch.join("memory"), progress)?;
    Ok(Rounds { rounds, rest, loaded, binary: binary(scratch)? })
}

fn round(plan: &Plan, runtime: &Runtime, dir: &Path, progress: &mut Progress) -> Result<Round, Failure> {
    let numbers = Numbers::default();
    let (server, limit) = (Server::durable(&dir.join("server"))?, Server::limit()?);
    let singles = |server: &Server, jobs| load::singles(runtime, server, "single", jobs, &numbers);
    progress.start("single publishes", 4);
    // Both are warm before anything counts.
    singles(&limit, plan.singles / 10)?;
    singles(&server, plan.singles / 10)?;
    let limit_cpu = limit.cpu();
    let before = singles(&limit, plan.singles / 2)?;
    let limit_cpu = limit.cpu().saturating_sub(limit_cpu).as_secs_f64();
    progress.set(1);
    let (cpu, commits) = (server.cpu(), runtime.block_on(server.commits())?);
    let single = singles(&server, plan.singles)?;
    let cpu = server.cpu().saturating_sub(cpu).as_secs_f64();
    let flushes = (runtime.block_on(server.commits())? - commits) / count(plan.singles);
    progress.set(2);
    let after = singles(&limit, plan.singles / 2)?;
    drop(limit);
    progress.start("batches", 2);
    let batch = load::batches(runtime, &server, "batch", load::BATCHERS, plan.batched, &numbers)?;
    let store = store_rate(plan, &dir.join("store"))?;
    progress.start("end to end", 4);
    let push = flows::push(runtime, &server, "push", plan.flow, &numbers)?;
    progress.set(1);
    let pull = flows::pull(runtime, &server, "pull", plan.flow * 2, &numbers)?;
    progress.set(2);
    let span = Duration::from_secs(plan.steady_seconds);
    let steady = flows::steady(runtime, &server, "steady", STEADY_RATE, span)?;
    progress.set(3);
    drop(server);
    let many = many::rates(runtime, &dir.join("many"), plan.queues, plan.flow)?;
    Ok(Round {
        limit: f64::midpoint(before.per_second(), after.per_second()),
        limit_p99: both(&before, &after, 0.99),
        limit_cpu: limit_cpu / count(plan.singles / 2) * 10_000.0,
        single: single.per_second(),
        single_p50: single.latency_ms(0.5),
        single_p99: single.latency_ms(0.99),
        cpu: cpu / count(plan.singles) * 10_000.0,
        flushes,
        store,
        batch: batch.per_second(),
        push,
        pull,
        steady,
        many,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn count(n: u64) -> f64 {
    n as f64
}

fn both(before: &Load, after: &Load, quantile: f64) -> f64 {
    f64::midpoint(before.latency_ms(quantile), after.latency_ms(quantile))
}

/// Publishes per second of the store alone, called from this process with full batches.
fn store_rate(plan: &Plan, dir: &Path) -> Result<f64, Failure> {
    let mut workload = Workload::after(0)?.without_repeats();
    let driver = Driver::open(dir, Arc::new(SystemClock::new()), workload.queues())?;
    let mut tally = Tally::new();
    while tally.publishes < plan.batched {
        driver.publish(workload.batch(STORE_BATCH)?, &mut tally)?;
    }
    driver.close()?;
    Ok(tally.publishes_per_second())
}

/// Memory of a fresh server, at rest and after many publishes.
fn memory(
    plan: &Plan,
    runtime: &Runtime,
    dir: &Path,
    progress: &mut Progress,
) -> Result<(f64, f64), Failure> {
    progress.start("memory", 2);
    let server = Server::durable(dir)?;
    std::thread::sleep(Duration::from_secs(1));
    let rest = server.memory();
    let numbers = Numbers::default();
    load::singles(runtime, &server, "single", plan.loaded / 4, &numbers)?;
    progress.set(1);
    load::batches(runtime, &server, "single", load::BATCHERS, plan.loaded - plan.loaded / 4, &numbers)?;
    Ok((rest, server.memory()))
}

/// Bytes of this program without its symbols.
fn binary(scratch: &Path) -> Result<f64, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let bare = scratch.join("semel-stripped");
    let stripped = Command::new("strip").arg("-o").arg(&bare).arg(&program).status();
    let measured = if stripped.is_ok_and(|status| status.success()) { &bare } else { &program };
    let size = std::fs::metadata(measured).map_err(Failure::io("measure this program"))?.len();
    Ok(count(size))
}

impl Rounds {
    /// The table.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let of = |take: fn(&Round) -> f64| self.rounds.iter().map(take).collect::<Vec<_>>();
        vec![
            Measure::judge(&targets::SINGLE, of(|r| r.single / r.limit)),
            Measure::judge(&targets::ACK_P99, of(|r| r.single_p99 / r.limit_p99)),
            Measure::judge(&targets::CPU, of(|r| r.cpu)),
            Measure::judge(&targets::FLUSHES, of(|r| r.flushes)),
            Measure::judge(&targets::BATCHES, of(|r| r.batch / r.store)),
            Measure::judge(&targets::PUSH, of(|r| r.push / r.single)),
            Measure::judge(&targets::PULL, of(|r| r.pull / r.batch)),
            Measure::judge(&targets::LATENCY_P50, of(|r| r.steady.p50_ms)),
            Measure::judge(&targets::LATENCY_P99, of(|r| r.steady.p99_ms)),
            Measure::judge(&targets::IDLE_CPU, of(|r| r.steady.cpu)),
            Measure::judge(&targets::BLACKHOLE, of(|r| r.many.dark / r.many.bright)),
            Measure::judge(&targets::REST, vec![self.rest]),
            Measure::judge(&targets::LOADED, vec![self.loaded]),
            Measure::judge(&targets::BINARY, vec![self.binary]),
        ]
    }

    /// What is behind it.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let of = |take: fn(&Round) -> f64| self.rounds.iter().map(take).collect::<Vec<_>>();
        vec![
            Figure::new("single publishes, no store", "per second", of(|r| r.limit)),
            Figure::new("single publishes", "per second", of(|r| r.single)),
            Figure::new("server CPU per 10,000, no store", "s", of(|r| r.limit_cpu)),
            Figure::new("ack latency p50", "ms", of(|r| r.single_p50)),
            Figure::new("ack latency p99", "ms", of(|r| r.single_p99)),
            Figure::new("ack latency p99, no store", "ms", of(|r| r.limit_p99)),
            Figure::new("batch publishes", "per second", of(|r| r.batch)),
            Figure::new("publishes, the store alone", "per second", of(|r| r.store)),
            Figure::new("completed, push", "per second", of(|r| r.push)),
            Figure::new("completed, pull", "per second", of(|r| r.pull)),
            Figure::new("completed, 1,000 queues", "per second", of(|r| r.many.bright)),
            Figure::new("completed, 1,000 queues and a blackhole", "per second", of(|r| r.many.dark)),
        ]
    }
}
