//! The limit: what hand-written SQL does on the same PostgreSQL. One table, a unique key, an index of what is ready;
//! batches of 100 rows per transaction, and nothing that a queue needs besides.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use super::super::load::PAYLOAD_BYTES;
use crate::failure::Failure;

/// Connections that insert at once, and as many that claim.
const CONNECTIONS: usize = 4;
/// Rows per transaction.
const ROWS: usize = 100;
/// How long a worker that found nothing leaves the table alone.
const PAUSE: Duration = Duration::from_millis(1);

/// The table as it is when new: without statistics, and none are taken. Those from a moment when every row was ready outlived a
/// `TRUNCATE` and had claims walk the primary key over all that was done, which took the limit to a quarter of its pace.
const SCHEMA: &str = "
    DROP SCHEMA IF EXISTS limits CASCADE;
    CREATE SCHEMA limits;
    CREATE TABLE limits.job (
        id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue   integer NOT NULL,
        key     text NOT NULL,
        payload text NOT NULL,
        state   smallint NOT NULL DEFAULT 0,
        UNIQUE (queue, key)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_threshold = 2000000000);
    CREATE INDEX ready ON limits.job (queue, id) WHERE state = 0;";

const INSERT: &str = "
    INSERT INTO limits.job (queue, key, payload)
    SELECT 1, key, payload FROM unnest($1::text[], $2::text[]) AS u (key, payload)
    ON CONFLICT (queue, key) DO NOTHING";

const CLAIM: &str = "
    UPDATE limits.job SET state = 1
    WHERE id IN (
        SELECT id FROM limits.job
        WHERE queue = 1 AND state = 0
        ORDER BY id LIMIT 100
        FOR UPDATE SKIP LOCKED
    )
    RETURNING id, payload";

const COMPLETE: &str = "UPDATE limits.job SET state = 2 WHERE id = ANY ($1::bigint[])";

/// Hand-written SQL on one database.
#[derive(Debug)]
pub(super) struct Limit {
    url: String,
    /// Keys that were used up.
    numbers: Arc<AtomicU64>,
}

impl Limit {
    /// Makes its table.
    pub(super) fn prepare(runtime: &Runtime, url: &str) -> Result<Self, Failure> {
        runtime.block_on(async {
            let client = connect(url).await?;
            make_table(&client).await
        })?;
        Ok(Self { url: url.to_owned(), numbers: Arc::default() })
    }

    /// Rows inserted per second.
    pub(super) fn inserts(&self, runtime: &Runtime, rows: u64) -> Result<f64, Failure> {
        let left = Arc::new(AtomicU64::new(rows / ROWS as u64));
        let took = runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..CONNECTIONS {
                clients.push(self.inserter().await?);
            }
            let began = Instant::now();
            all(clients.into_iter().map(|inserter| inserter.run(left.clone()))).await?;
            Ok::<_, Failure>(began.elapsed())
        })?;
        Ok(per_second(rows, took))
    }

    /// Rows that were inserted, claimed and completed, per second: first insert to last completion.
    pub(super) fn lives(&self, runtime: &Runtime, rows: u64) -> Result<f64, Failure> {
        let (left, ended) = (Arc::new(AtomicU64::new(rows / ROWS as u64)), Arc::new(AtomicU64::new(0)));
        let took = runtime.block_on(async {
            // What the slices before left behind is not part of this.
            let client = connect(&self.url).await?;
            make_table(&client).await?;
            let (mut inserters, mut workers) = (Vec::new(), Vec::new());
            for _ in 0..CONNECTIONS {
                inserters.push(self.inserter().await?);
                workers.push(Worker::open(&self.url).await?);
            }
            let began = Instant::now();
            let inserts = all(inserters.into_iter().map(|inserter| inserter.run(left.clone())));
            let lives = all(workers.into_iter().map(|worker| worker.run(rows, ended.clone())));
            let (inserted, lived) = tokio::join!(inserts, lives);
            inserted.and(lived)?;
            Ok::<_, Failure>(began.elapsed())
        })?;
        Ok(per_second(rows, took))
    }

    async fn inserter(&self) -> Result<Inserter, Failure> {
        let client = connect(&self.url).await?;
        let insert = client.prepare(INSERT).await.map_err(broken("prepare an insert"))?;
        Ok(Inserter { client, insert, numbers: self.numbers.clone() })
    }
}

async fn make_table(client: &Client) -> Result<(), Failure> {
    client.batch_execute(SCHEMA).await.map_err(broken("make the limit's table"))
}

struct Inserter {
    client: Client,
    insert: Statement,
    numbers: Arc<AtomicU64>,
}

impl Inserter {
    async fn run(self, left: Arc<AtomicU64>) -> Result<(), Failure> {
        // Each row brings its own, as each publish does.
        let payloads = vec!["x".repeat(PAYLOAD_BYTES); ROWS];
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            let first = self.numbers.fetch_add(ROWS as u64, Ordering::Relaxed);
            let keys: Vec<String> =
                (first..).take(ROWS).map(|number| format!("bench-{number:022}")).collect();
            self.client.execute(&self.insert, &[&keys, &payloads]).await.map_err(broken("insert"))?;
        }
        Ok(())
    }
}

struct Worker {
    client: Client,
    claim: Statement,
    complete: Statement,
}

impl Worker {
    async fn open(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        let claim = client.prepare(CLAIM).await.map_err(broken("prepare a claim"))?;
        let complete = client.prepare(COMPLETE).await.map_err(broken("prepare a completion"))?;
        Ok(Self { client, claim, complete })
    }

    async fn run(self, rows: u64, ended: Arc<AtomicU64>) -> Result<(), Failure> {
        while ended.load(Ordering::Relaxed) < rows {
            let claimed = self.client.query(&self.claim, &[]).await.map_err(broken("claim"))?;
            if claimed.is_empty() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let ids: Vec<i64> = claimed.iter().map(|row| row.get(0)).collect();
            let done = self.client.execute(&self.complete, &[&ids]).await.map_err(broken("complete"))?;
            ended.fetch_add(done, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Runs all of them at once, each to its end.
async fn all(
    tasks: impl Iterator<Item = impl Future<Output = Result<(), Failure>> + Send + 'static>,
) -> Result<(), Failure> {
    let mut tasks: JoinSet<_> = tasks.collect();
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|e| Failure::Broken(format!("a connection of the limit broke: {e}")))??;
    }
    Ok(())
}

/// Connects without TLS: the cluster is on this machine.
pub(in crate::bench) async fn connect(url: &str) -> Result<Client, Failure> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.map_err(broken("connect to PostgreSQL"))?;
    tokio::spawn(async move {
        // Whoever used the connection hears of its end.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection of the benchmark ended");
        }
    });
    Ok(client)
}

pub(in crate::bench) fn broken(what: &'static str) -> impl Fn(tokio_postgres::Error) -> Failure {
    move |error| {
        let cause = error.as_db_error().map(ToString::to_string);
        Failure::Broken(format!("could not {what}: {}", cause.unwrap_or_else(|| error.to_string())))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
