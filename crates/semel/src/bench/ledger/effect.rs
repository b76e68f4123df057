//! Transactional effects, against the same insert without a ledger.

use std::sync::Arc;

use semel_ledger::postgres::{TokioPostgres, Transaction};
use semel_ledger::{Call, Ledger, Verdict};
use serde_json::json;
use tokio_postgres::{Client, Statement};

use super::crew::{self, WORKERS, Work};
use super::failed;
use crate::bench::http::postgres::limit::{broken, connect};
use crate::failure::Failure;

/// A ledger over one connection. Transactions have their own.
pub(super) type PgLedger = Ledger<TokioPostgres<Arc<Client>>>;

/// How often the kinds take turns.
const SLICES: u64 = 4;

const TABLE: &str = "
    CREATE TABLE charge (
        id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        order_id text NOT NULL,
        amount   bigint NOT NULL
    )";

const INSERT: &str = "INSERT INTO charge (order_id, amount) VALUES ($1, $2) RETURNING id";

/// A worker: a connection and what the application has prepared on it.
pub(super) struct Worker {
    client: Client,
    insert: Statement,
}

/// What was measured, per second.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// BEGIN, INSERT, COMMIT.
    pub(super) bare: Work,
    /// The same under a ledger.
    pub(super) once: Work,
    /// The same with a fingerprint of the input.
    pub(super) checked: Work,
}

/// A ledger in this database, with its tables.
pub(super) async fn ledger(url: &str, consumer: &str, cache: u64) -> Result<PgLedger, Failure> {
    let store = TokioPostgres::new(Arc::new(connect(url).await?));
    let ledger =
        Ledger::builder(store, consumer).cache_bytes(cache).build().map_err(failed("build a ledger"))?;
    ledger.ensure_schema().await.map_err(failed("make the ledger's tables"))?;
    Ok(ledger)
}

/// Makes the application's table.
pub(super) async fn prepare(url: &str) -> Result<(), Failure> {
    connect(url).await?.batch_execute(TABLE).await.map_err(broken("make the application's table"))
}

/// Runs so many effects of each kind, in slices that take turns.
pub(super) async fn measure(url: &str, effects: u64) -> Result<Effects, Failure> {
    let ledger = ledger(url, "effects", semel_ledger::DEFAULT_CACHE).await?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(Worker::open(url).await?);
    }
    // All are warm before anything counts.
    let (mut first, warm) = (0, (effects / 10).max(1));
    workers = slice(workers, &ledger, (first, warm), &mut Effects::default()).await?;
    first += warm;
    let (mut found, size) = (Effects::default(), effects / SLICES);
    for _ in 0..SLICES {
        workers = slice(workers, &ledger, (first, size), &mut found).await?;
        first += size;
    }
    Ok(found)
}

async fn slice(
    workers: Vec<Worker>,
    ledger: &PgLedger,
    numbers: (u64, u64),
    found: &mut Effects,
) -> Result<Vec<Worker>, Failure> {
    let bare = async |worker: &mut Worker, number| worker.bare(number).await;
    let (workers, work) = crew::share(workers, numbers, bare).await?;
    found.bare += work;
    let its = ledger.clone();
    let once = async move |worker: &mut Worker, number| {
        let call = Call::new(format!("charge-{number:016}")).map_err(failed("name an effect"))?;
        new(worker.once(&its, &call).await?)
    };
    let (workers, work) = crew::share(workers, numbers, once).await?;
    found.once += work;
    let its = ledger.clone();
    let checked = async move |worker: &mut Worker, number| {
        let call = Call::new(format!("checked-{number:016}")).map_err(failed("name an effect"))?;
        let input = json!({ "order": number, "amount": 1000, "currency": "EUR" });
        new(worker.once(&its, &call.input(&input).map_err(failed("read an input"))?).await?)
    };
    let (workers, work) = crew::share(workers, numbers, checked).await?;
    found.checked += work;
    Ok(workers)
}

/// What an effect under a new key must come to.
pub(super) fn new(verdict: Verdict<i64>) -> Result<(), Failure> {
    match verdict {
        Verdict::Applied(_) => Ok(()),
        other => Err(Failure::Broken(format!("a new effect was answered {other:?}"))),
    }
}

impl Worker {
    /// Connects.
    pub(super) async fn open(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        let insert = client.prepare(INSERT).await.map_err(broken("prepare an insert"))?;
        Ok(Self { client, insert })
    }

    /// The insert in a transaction of its own.
    async fn bare(&mut self, number: u64) -> Result<(), Failure> {
        let order = format!("charge-{number:016}");
        let transaction = self.client.transaction().await.map_err(broken("begin"))?;
        transaction.query_one(&self.insert, &[&order, &1000_i64]).await.map_err(broken("insert a charge"))?;
        transaction.commit().await.map_err(broken("commit"))
    }

    /// The insert under a ledger.
    pub(super) async fn once(&mut self, ledger: &PgLedger, call: &Call) -> Result<Verdict<i64>, Failure> {
        let Self { client, insert } = self;
        let effect = async |transaction: &Transaction<'_>| charge(transaction, insert, call).await;
        ledger.transact(client, call, effect).await.map_err(failed("run an effect"))
    }

    /// One round trip that does nothing.
    pub(super) async fn trip(&self, nothing: &Statement) -> Result<(), Failure> {
        self.client.query_one(nothing, &[]).await.map(drop).map_err(broken("ask PostgreSQL for nothing"))
    }

    pub(super) async fn nothing(&self) -> Result<Statement, Failure> {
        self.client.prepare("SELECT 1").await.map_err(broken("prepare a round trip"))
    }
}

async fn charge(
    transaction: &Transaction<'_>,
    insert: &Statement,
    call: &Call,
) -> Result<i64, tokio_postgres::Error> {
    let charged = transaction.query_one(insert, &[&call.key().as_str(), &1000_i64]).await?;
    charged.try_get(0)
}
