//! What a prune does to the claims beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use semel_ledger::postgres::TokioPostgres;
use semel_ledger::store::{Claim, Claimed, Expired, Owner, Store};
use semel_ledger::{Consumer, DEFAULT_LEASE, DEFAULT_TTL, Key, Prune, Scope, Step};
use tokio_postgres::Client;

use super::crew::{self, WORKERS};
use super::effect::{self, PgLedger};
use super::failed;
use crate::bench::http::postgres::limit::{broken, connect};
use crate::failure::Failure;
use crate::progress::Progress;

/// Rows per statement: enough to be fast, few enough to show progress.
const SLICE: u64 = 100_000;

/// Entries of a day that expired an hour ago, oldest first.
const FILL: &str = "
    INSERT INTO semel_ledger.entry (consumer, key, step, owner, token, since, until, done_at, expires_at, result)
    SELECT 'past', 'past-' || lpad(number::text, 23, '0'), '', '', 1, done, done, done, done + 86400000, '123456789'
    FROM (
        SELECT number, semel_ledger.clock() - 2 * 86400000 - 3600000 + number * 86400000 / $3 AS done
        FROM generate_series($1::bigint, $2::bigint) AS number
        OFFSET 0
    ) AS past";

/// What was measured.
#[derive(Debug)]
pub(super) struct Pruned {
    /// p99 of claims without a prune, in milliseconds.
    pub(super) calm_p99: f64,
    /// p99 of claims during it.
    pub(super) p99: f64,
    /// p50 of the same.
    pub(super) calm_p50: f64,
    pub(super) p50: f64,
    /// Rows pruned per second.
    pub(super) rate: f64,
}

type Workers = Vec<TokioPostgres<Arc<Client>>>;

/// Claims at a steady pace: before, during and after the prune of `rows` expired entries.
pub(super) async fn measure(
    url: &str,
    rows: u64,
    calm: Duration,
    progress: &mut Progress,
) -> Result<Pruned, Failure> {
    let ledger = effect::ledger(url, "prunes", 0).await?;
    let client = connect(url).await?;
    fill(&client, rows, progress).await?;
    settle(&client).await?;
    let mut workers = Workers::new();
    for _ in 0..WORKERS {
        workers.push(TokioPostgres::new(Arc::new(connect(url).await?)));
    }
    progress.start("claims beside a prune", 3);
    // They are warm before anything counts.
    let (workers, ..) = claims(workers, sleep(Duration::from_millis(200))).await?;
    let (workers, mut without, ()) = claims(workers, sleep(calm)).await?;
    progress.set(1);
    let (workers, during, took) = claims(workers, pruned(&ledger, rows)).await?;
    progress.set(2);
    // What the prune left to clean up is not part of a calm time.
    settle(&client).await?;
    let (_, after, ()) = claims(workers, sleep(calm)).await?;
    without.add(after).map_err(|e| Failure::Broken(e.to_string()))?;
    Ok(Pruned {
        calm_p99: millis(&without, 0.99),
        p99: millis(&during, 0.99),
        calm_p50: millis(&without, 0.5),
        p50: millis(&during, 0.5),
        rate: per_second(rows, took),
    })
}

async fn fill(client: &Client, rows: u64, progress: &mut Progress) -> Result<(), Failure> {
    progress.start("expired rows", rows);
    let number = |n: u64| i64::try_from(n).map_err(|_| Failure::Usage("too many --rows".into()));
    let mut first = 1;
    while first <= rows {
        let last = (first + SLICE - 1).min(rows);
        let numbers = [number(first)?, number(last)?, number(rows)?];
        client
            .execute(FILL, &[&numbers[0], &numbers[1], &numbers[2]])
            .await
            .map_err(broken("fill the ledger"))?;
        progress.set(last);
        first = last + 1;
    }
    Ok(())
}

/// What autovacuum and the checkpointer would have done in time.
async fn settle(client: &Client) -> Result<(), Failure> {
    client.batch_execute("VACUUM ANALYZE semel_ledger.entry").await.map_err(broken("vacuum"))?;
    client.batch_execute("CHECKPOINT").await.map_err(broken("make a checkpoint"))
}

async fn sleep(span: Duration) -> Result<(), Failure> {
    tokio::time::sleep(span).await;
    Ok(())
}

/// Prunes everything, as the ledger does it unless it is told otherwise; says how long it took.
async fn pruned(ledger: &PgLedger, rows: u64) -> Result<Duration, Failure> {
    let began = Instant::now();
    let gone = ledger.prune(Prune::default()).await.map_err(failed("prune"))?;
    if gone != rows {
        return Err(Failure::Broken(format!("{gone} of {rows} expired rows were pruned")));
    }
    Ok(began.elapsed())
}

/// Claims of new keys, while something else goes on.
async fn claims<T>(
    workers: Workers,
    meanwhile: impl Future<Output = Result<T, Failure>>,
) -> Result<(Workers, Histogram<u64>, T), Failure> {
    let consumer = Consumer::new("claims").map_err(failed("name a consumer"))?;
    let act = async move |store: &mut TokioPostgres<Arc<Client>>| claim(store, consumer.clone()).await;
    crew::pace(workers, act, meanwhile).await
}

async fn claim(store: &TokioPostgres<Arc<Client>>, consumer: Consumer) -> Result<(), Failure> {
    let owner = Owner::random();
    let key = Key::new(format!("claim-{owner}")).map_err(failed("name a key"))?;
    let claim = Claim {
        scope: Scope { consumer, key, step: Step::whole() },
        owner,
        fence: None,
        fingerprint: None,
        lease: DEFAULT_LEASE,
        expired: Expired::TakeOver { window: None },
        ttl: DEFAULT_TTL,
    };
    match store.claim(&claim).await.map_err(failed("claim"))? {
        Claimed::Granted(_) => Ok(()),
        other => Err(Failure::Broken(format!("a claim of a new key was answered {other:?}"))),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is below 2^52")]
fn millis(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
