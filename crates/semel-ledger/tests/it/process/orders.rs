//! What a worker's process is told to do.

use std::path::PathBuf;
use std::time::Duration;

use semel_ledger::handler::{Disposition, Handler, Job};
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::postgres::SqlxPostgres;
use semel_ledger::redis::Redis;
use semel_ledger::sqlite::Sqlite;
use semel_ledger::store::Store;
use semel_ledger::{Call, Ledger};
use serde::{Deserialize, Serialize};

use crate::modes::Provider;
use crate::modes::durable::{Outcome, at_most_once, intent, reconcile, seen, steps};
use crate::modes::transactional::{by_mysql, by_sqlite, by_sqlx, by_tokio};
use crate::postgres::{Tokio, tokio_store};
use crate::{mysql, postgres};

/// Where the ledger is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Place {
    Tokio(String),
    Sqlx(String),
    Sqlite(PathBuf),
    Maria(String),
    Redis(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    Intent,
    Reconcile,
    AtMostOnce,
    Seen,
    Steps,
    Transactional,
}

/// Deliveries for a process, all at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) place: Place,
    /// Each in a mode, under a key.
    pub(super) jobs: Vec<(Mode, String)>,
    /// Of the queue.
    pub(super) token: u64,
    /// The boundary at which each stops and waits for a word, by its place in `Boundary::ALL`.
    pub(super) stop: Option<usize>,
    /// The provider's.
    pub(super) directory: PathBuf,
    pub(super) lease: Duration,
}

/// A ledger, and what its handlers need.
#[derive(Clone)]
pub(super) struct Desk {
    store: Opened,
    provider: Provider,
    lease: Duration,
}

#[derive(Clone)]
enum Opened {
    Tokio(Tokio, String),
    Sqlx(SqlxPostgres),
    Sqlite(Sqlite),
    Maria(SqlxMySql),
    Redis(Redis),
}

impl Desk {
    pub(super) async fn open(orders: &Orders) -> Self {
        let store = match orders.place.clone() {
            Place::Tokio(url) => Opened::Tokio(tokio_store(&url), url),
            Place::Sqlx(url) => Opened::Sqlx(SqlxPostgres::new(postgres::pool(&url).await)),
            Place::Sqlite(path) => Opened::Sqlite(Sqlite::open(path).unwrap()),
            Place::Maria(url) => {
                Opened::Maria(SqlxMySql::new(mysql::pool(&url, Duration::from_secs(5)).await))
            }
            Place::Redis(url) => Opened::Redis(redis(&url).await),
        };
        Self { store, provider: Provider::at(&orders.directory), lease: orders.lease }
    }

    pub(super) async fn deliver(&self, mode: Mode, key: &str, token: u64) -> Disposition {
        let job = Job { key: Some(key), token: Some(token), payload: b"{}" };
        let handler = Handler::new();
        if mode != Mode::Transactional {
            return handler.handle(&job, |call| self.durable(mode, call)).await;
        }
        match self.store.clone() {
            Opened::Tokio(store, url) => {
                handler.handle(&job, |call| by_tokio(self.ledger(store), url, call)).await
            }
            Opened::Sqlx(store) => handler.handle(&job, |call| by_sqlx(self.ledger(store), call)).await,
            Opened::Sqlite(store) => handler.handle(&job, |call| by_sqlite(self.ledger(store), call)).await,
            Opened::Maria(store) => handler.handle(&job, |call| by_mysql(self.ledger(store), call)).await,
            Opened::Redis(_) => panic!("Redis has no transactions that an application could join"),
        }
    }

    async fn durable(&self, mode: Mode, call: Call) -> Outcome {
        match self.store.clone() {
            Opened::Tokio(store, _) => self.run(store, mode, call).await,
            Opened::Sqlx(store) => self.run(store, mode, call).await,
            Opened::Sqlite(store) => self.run(store, mode, call).await,
            Opened::Maria(store) => self.run(store, mode, call).await,
            Opened::Redis(store) => self.run(store, mode, call).await,
        }
    }

    async fn run<S: Store>(&self, store: S, mode: Mode, call: Call) -> Outcome {
        let (ledger, provider) = (self.ledger(store), self.provider.clone());
        match mode {
            Mode::Intent => intent(ledger, provider, call).await,
            Mode::Reconcile => reconcile(ledger, provider, call).await,
            Mode::AtMostOnce => at_most_once(ledger, provider, call).await,
            Mode::Seen => seen(ledger, provider, call).await,
            Mode::Steps => steps(ledger, provider, call).await,
            Mode::Transactional => unreachable!("transactions are another's"),
        }
    }

    fn ledger<S: Store>(&self, store: S) -> Ledger<S> {
        Ledger::builder(store, "worker").lease(self.lease).cache_bytes(0).build().unwrap()
    }
}

async fn redis(url: &str) -> Redis {
    let store = Redis::open(url).unwrap();
    store.ensure_schema().await.unwrap();
    store
}
