//! The order of a run: what is compared is measured right after each other.

use std::time::Duration;

use semel_cluster::Cluster;
use tokio::runtime::Runtime;

use super::super::load::{self, Numbers};
use super::super::server::Server;
use super::super::{flows, runtime};
use super::limit::{Limit, broken, connect};
use super::nodes::{self, Nodes};
use super::turns::{Pair, Side};
use super::{Plan, keys, spent, targets};
use crate::bench::report::{Figure, Measure};
use crate::failure::Failure;
use crate::progress::Progress;

/// What a server of this size would be set to. Everything that makes an answer durable is as it comes: on.
const SETTINGS: [(&str, &str); 5] = [
    ("shared_buffers", "1GB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
    ("wal_compression", "on"),
    ("shared_preload_libraries", "pg_stat_statements"),
];

/// Queues that an idle node looks after.
const IDLE_QUEUES: u32 = 10;

/// What all rounds found.
#[derive(Debug)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    idle: f64,
    keys: Pair,
}

/// What one round found.
#[derive(Debug)]
struct Round {
    sql: AgainstSql,
    nodes: Nodes,
}

/// One node, and hand-written SQL in the same database.
#[derive(Debug)]
struct AgainstSql {
    limit: f64,
    limit_lives: f64,
    single: f64,
    single_p50: f64,
    single_p99: f64,
    batch: f64,
    pull: f64,
}

/// Runs the plan on a cluster of its own.
pub(super) fn run(plan: &Plan, progress: &mut Progress) -> Result<Rounds, Failure> {
    let runtime = runtime()?;
    progress.note("starting a PostgreSQL cluster");
    let cluster = Cluster::on_disk(&SETTINGS).map_err(|e| Failure::Usage(e.to_string()))?;
    let mut rounds = Vec::new();
    for number in 1..=plan.runs {
        progress.note(&format!("round {number} of {}", plan.runs));
        rounds.push(round(plan, &runtime, &cluster, progress)?);
    }
    let idle = idle(plan, &runtime, &database(&cluster, "idle")?, progress)?;
    let keys = keys::measure(plan, &runtime, &cluster, progress)?;
    Ok(Rounds { rounds, idle, keys })
}

/// A fresh database.
pub(super) fn database(cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let made = cluster.sql("postgres", &format!("CREATE DATABASE {name}"));
    made.map_err(|e| Failure::Broken(e.to_string()))?;
    Ok(cluster.url(name))
}

/// Takes a database away. What one round has written is not to be carried along by the next: after some rounds their pages would
/// no longer fit into memory, and every round would be slower than the one before.
pub(super) fn forget(cluster: &Cluster, name: &str) -> Result<(), Failure> {
    let dropped = cluster.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
    dropped.map(drop).map_err(|e| Failure::Broken(e.to_string()))
}

fn round(
    plan: &Plan,
    runtime: &Runtime,
    cluster: &Cluster,
    progress: &mut Progress,
) -> Result<Round, Failure> {
    let numbers = Numbers::default();
    let sql = against_sql(plan, runtime, &database(cluster, "sql")?, &numbers, progress)?;
    forget(cluster, "sql")?;
    let nodes = nodes::measure(plan, runtime, cluster, &numbers, progress)?;
    Ok(Round { sql, nodes })
}

fn against_sql(
    plan: &Plan,
    runtime: &Runtime,
    url: &str,
    numbers: &Numbers,
    progress: &mut Progress,
) -> Result<AgainstSql, Failure> {
    let (server, limit) = (Server::shared(url)?, Limit::prepare(runtime, url)?);
    progress.start("publishes", 5);
    // Both are warm before anything counts.
    load::singles(runtime, &server, "single", plan.singles / 10, numbers)?;
    limit.inserts(runtime, plan.batched / 10)?;
    let before = limit.inserts(runtime, plan.batched / 2)?;
    progress.set(1);
    let single = load::singles(runtime, &server, "single", plan.singles, numbers)?;
    progress.set(2);
    let batch = load::batches(runtime, &server, "batch", load::BATCHERS, plan.batched, numbers)?;
    progress.set(3);
    let after = limit.inserts(runtime, plan.batched / 2)?;
    progress.start("end to end", 2);
    analyze(runtime, url)?;
    let limit_lives = limit.lives(runtime, plan.flow)?;
    progress.set(1);
    let pull = flows::pull(runtime, &server, "pull", plan.flow, numbers)?;
    Ok(AgainstSql {
        limit: f64::midpoint(before, after),
        limit_lives,
        single: single.per_second(),
        single_p50: single.latency_ms(0.5),
        single_p99: single.latency_ms(0.99),
        batch: batch.per_second(),
        pull,
    })
}

/// Has the planner know what is in the tables, as autovacuum does within a minute: what it knows decides over plans, and no table in
/// use is as new as those of a round.
fn analyze(runtime: &Runtime, url: &str) -> Result<(), Failure> {
    runtime.block_on(async {
        connect(url).await?.batch_execute("ANALYZE").await.map_err(broken("analyze the tables"))
    })
}

/// Statements per second of a node that has nothing to do.
fn idle(plan: &Plan, runtime: &Runtime, url: &str, progress: &mut Progress) -> Result<f64, Failure> {
    progress.start("idle node", 1);
    let server = Server::shared(url)?;
    let numbers = Numbers::default();
    for queue in 0..IDLE_QUEUES {
        load::singles(runtime, &server, &format!("idle{queue}"), 1, &numbers)?;
    }
    let span = Duration::from_secs(plan.idle_seconds);
    runtime.block_on(async {
        let client = connect(url).await?;
        let make = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
        client.batch_execute(make).await.map_err(broken("count statements"))?;
        // What a start brings with it is over by then.
        tokio::time::sleep(Duration::from_secs(2)).await;
        client.execute("SELECT pg_stat_statements_reset()", &[]).await.map_err(broken("count statements"))?;
        tokio::time::sleep(span).await;
        let count = "SELECT coalesce(sum(calls), 0)::float8
                     FROM pg_stat_statements JOIN pg_database ON oid = dbid
                     WHERE datname = current_database() AND query NOT LIKE '%pg_stat_statements%'";
        let row = client.query_one(count, &[]).await.map_err(broken("count statements"))?;
        Ok(row.get::<_, f64>(0) / span.as_secs_f64())
    })
}

impl Rounds {
    /// The table.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let of = |take: fn(&Round) -> f64| self.rounds.iter().map(take).collect::<Vec<_>>();
        vec![
            Measure::judge(&targets::SINGLE, of(|r| r.sql.single / r.sql.limit)),
            Measure::judge(&targets::BATCHES, of(|r| r.sql.batch / r.sql.limit)),
            Measure::judge(&targets::PULL, of(|r| r.sql.pull / r.sql.limit_lives)),
            Measure::judge(&targets::NODES, of(|r| r.nodes.ratio())),
            Measure::judge(&targets::FULL, vec![self.keys.ratio()]),
            Measure::judge(&targets::IDLE, vec![self.idle]),
        ]
    }

    /// What is behind it.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let of = |take: fn(&Round) -> f64| self.rounds.iter().map(take).collect::<Vec<_>>();
        let mut figures = vec![
            Figure::new("inserts, hand-written SQL", "per second", of(|r| r.sql.limit)),
            Figure::new("lives, hand-written SQL", "per second", of(|r| r.sql.limit_lives)),
            Figure::new("single publishes", "per second", of(|r| r.sql.single)),
            Figure::new("ack latency p50", "ms", of(|r| r.sql.single_p50)),
            Figure::new("ack latency p99", "ms", of(|r| r.sql.single_p99)),
            Figure::new("batch publishes", "per second", of(|r| r.sql.batch)),
            Figure::new("completed, pull", "per second", of(|r| r.sql.pull)),
            Figure::new("single publishes, empty", "per second", vec![self.keys.rate(Side::Base)]),
            Figure::new("single publishes, many keys", "per second", vec![self.keys.rate(Side::Other)]),
        ];
        figures.extend(nodes::figures(&self.rounds.iter().map(|r| &r.nodes).collect::<Vec<_>>()));
        figures.extend(self.spent());
        figures
    }

    /// Where the time of a publish goes, with one node and with three, 64 connections on both sides.
    fn spent(&self) -> Vec<Figure> {
        let of = |side| self.rounds.iter().map(|r| r.nodes.usual().spent(side)).collect::<Vec<_>>();
        let one = [
            "one node: the node",
            "one node: PostgreSQL",
            "one node: the client",
            "one node: cores idle",
            "one node: waits for a core",
        ];
        let three = [
            "three nodes: the nodes",
            "three nodes: PostgreSQL",
            "three nodes: the client",
            "three nodes: cores idle",
            "three nodes: waits for a core",
        ];
        [spent::figures(one, &of(Side::Base)), spent::figures(three, &of(Side::Other))].concat()
    }
}
