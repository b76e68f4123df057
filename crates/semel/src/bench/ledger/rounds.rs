//! The order of a run: every measure once per round, each on a database of that round.

use std::path::Path;
use std::time::Duration;

use semel_cluster::{Cluster, Redis};
use tokio::runtime::Runtime;

use super::effect::Effects;
use super::prune::Pruned;
use super::relay::Relayed;
use super::replay::Replays;
use super::seen::Marks;
use super::{Plan, effect, failed, prune, relay, replay, seen, targets};
use crate::bench::http::runtime;
use crate::bench::http::server::Server;
use crate::bench::report::{Figure, Measure};
use crate::failure::Failure;
use crate::progress::Progress;

/// What a server of this size would be set to. Everything that makes an answer durable is as it comes: on.
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "1GB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
    ("wal_compression", "on"),
];

/// What all rounds found.
#[derive(Debug)]
pub(super) struct Rounds(Vec<Round>);

/// What one round found.
#[derive(Debug)]
struct Round {
    effects: Effects,
    replays: Replays,
    marks: Marks,
    pruned: Pruned,
    relayed: Relayed,
}

/// Runs the plan on servers of its own.
pub(super) fn run(plan: &Plan, scratch: &Path, progress: &mut Progress) -> Result<Rounds, Failure> {
    let runtime = runtime()?;
    progress.note("starting PostgreSQL and Redis");
    let cluster = Cluster::on_disk(&SETTINGS).map_err(|e| Failure::Usage(e.to_string()))?;
    let redis = Redis::start().map_err(|e| Failure::Usage(e.to_string()))?;
    let mut rounds = Vec::new();
    for number in 1..=plan.runs {
        progress.note(&format!("round {number} of {}", plan.runs));
        let name = format!("round{number}");
        cluster.sql("postgres", &format!("CREATE DATABASE {name}")).map_err(failed("make a database"))?;
        redis.command(&["FLUSHALL"]).map_err(failed("empty Redis"))?;
        let places = Places { url: cluster.url(&name), redis: redis.url() };
        rounds.push(places.round(plan, &runtime, &scratch.join(&name), progress)?);
        // The next one has the disk and the memory to itself.
        cluster
            .sql("postgres", &format!("DROP DATABASE {name} (FORCE)"))
            .map_err(failed("drop a database"))?;
    }
    Ok(Rounds(rounds))
}

/// Where a round works.
struct Places {
    url: String,
    redis: String,
}

impl Places {
    fn round(
        &self,
        plan: &Plan,
        runtime: &Runtime,
        dir: &Path,
        progress: &mut Progress,
    ) -> Result<Round, Failure> {
        progress.start("effects", 0);
        runtime.block_on(effect::prepare(&self.url))?;
        let effects = runtime.block_on(effect::measure(&self.url, plan.effects))?;
        progress.start("replays", 0);
        let replays = runtime.block_on(replay::measure(&self.url, plan.trips))?;
        progress.start("marks", 0);
        let marks = runtime.block_on(seen::measure(&self.redis, plan.marks))?;
        let calm = Duration::from_secs(plan.calm_seconds);
        let pruned = runtime.block_on(prune::measure(&self.url, plan.rows, calm, progress))?;
        progress.start("relay", 0);
        let server = Server::durable(dir)?;
        let relayed = relay::measure(runtime, &server, &self.url, plan.relayed)?;
        Ok(Round { effects, replays, marks, pruned, relayed })
    }
}

impl Rounds {
    /// The table.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let of = |take: fn(&Round) -> f64| self.0.iter().map(take).collect::<Vec<_>>();
        vec![
            Measure::judge(
                &targets::EFFECT,
                of(|r| r.effects.once.per_second() / r.effects.bare.per_second()),
            ),
            Measure::judge(&targets::REPLAY, of(|r| r.replays.trip / r.replays.cached)),
            Measure::judge(&targets::SEEN, of(|r| r.marks.first.per_second() / r.marks.bare.per_second())),
            Measure::judge(&targets::PRUNE, of(|r| r.pruned.p99 / r.pruned.calm_p99)),
            Measure::judge(&targets::RELAY, of(|r| r.relayed.rows / r.relayed.batches)),
        ]
    }

    /// What is behind it.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let of = |take: fn(&Round) -> f64| self.0.iter().map(take).collect::<Vec<_>>();
        let rate = |name, take| Figure::new(name, "per second", of(take));
        let millis = |name, take| Figure::new(name, "ms", of(take));
        let micros = |name, take| Figure::new(name, "µs", of(take));
        vec![
            rate("inserts in transactions", |r| r.effects.bare.per_second()),
            rate("effects", |r| r.effects.once.per_second()),
            rate("effects, input compared", |r| r.effects.checked.per_second()),
            micros("replay from memory", |r| r.replays.cached),
            micros("round trip to PostgreSQL", |r| r.replays.trip),
            micros("replay from PostgreSQL", |r| r.replays.asked),
            rate("SET NX", |r| r.marks.bare.per_second()),
            rate("SET NX PX", |r| r.marks.expiring.per_second()),
            rate("verdicts of the seen-set", |r| r.marks.first.per_second()),
            millis("claim p50", |r| r.pruned.calm_p50),
            millis("claim p50, during a prune", |r| r.pruned.p50),
            millis("claim p99", |r| r.pruned.calm_p99),
            millis("claim p99, during a prune", |r| r.pruned.p99),
            rate("rows pruned", |r| r.pruned.rate),
            rate("batch publishes", |r| r.relayed.batches),
            rate("rows relayed", |r| r.relayed.rows),
        ]
    }
}
