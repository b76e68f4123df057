//! A fresh store in a database of its own, with a clock that the tests move.

use std::sync::Arc;

use async_trait::async_trait;
use semel_cluster::{Database, Shared, Template};
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::{Clock, ManualClock, Store, StoreError};
use semel_store_postgres::{MIGRATIONS, Options, PostgresStore};
use tokio::runtime::{Builder, Runtime};

/// Every harness starts at the same time, so that a history can be repeated.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Fewer partitions than in earnest: each costs a test some milliseconds.
const DAYS_AHEAD: u32 = 1;

/// The cluster that all tests share.
pub(crate) fn cluster() -> &'static Shared {
    Shared::get().expect("a PostgreSQL cluster starts")
}

/// An empty database.
pub(crate) fn empty_database() -> Database<'static> {
    cluster().database(&Template::EMPTY, |_| Ok::<_, StoreError>(())).expect("a database is made")
}

/// A database with the schema of a store that was never used.
pub(crate) fn database() -> Database<'static> {
    let migrations = MIGRATIONS.iter().map(|migration| migration.sql.to_owned());
    let content: String = migrations.chain([DAYS_AHEAD.to_string()]).collect();
    let template = Template { name: "store", content: &content };
    cluster().database(&template, prepare).expect("a database is made")
}

/// Opens a store, which makes its schema and the partitions of the first days, and leaves no trace of itself.
fn prepare(url: &str) -> Result<(), StoreError> {
    runtime().block_on(async {
        let store = PostgresStore::open(url, options(&Arc::new(ManualClock::at(START)))).await?;
        store.close().await
    })
}

/// Settings of a store whose clock a test moves.
pub(crate) fn options(clock: &Arc<ManualClock>) -> Options {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Options { clock: Some(clock), connections: 4, days_ahead: DAYS_AHEAD, ..Options::default() }
}

/// A runtime for what is not asynchronous itself.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts")
}

pub(crate) struct Postgres {
    url: String,
    clock: Arc<ManualClock>,
    options: Options,
    store: Arc<PostgresStore>,
    /// The first store's connections live on it. In an `Option`, because it must not be waited for within another.
    runtime: Option<Runtime>,
    /// Kept to be dropped with the harness, after its connections.
    database: Option<Database<'static>>,
}

impl Postgres {
    /// A store in a database of its own.
    pub(crate) fn new() -> Self {
        let database = database();
        let mut harness = Self::at(database.url(), |_| {});
        harness.database = Some(database);
        harness
    }

    /// A store in the database at `url`, with some options changed.
    pub(crate) fn at(url: &str, change: impl FnOnce(&mut Options)) -> Self {
        let (runtime, clock) = (runtime(), Arc::new(ManualClock::at(START)));
        let mut options = options(&clock);
        change(&mut options);
        let opened = runtime.block_on(PostgresStore::open(url, options.clone()));
        let store = Arc::new(opened.expect("the store opens"));
        Self { url: url.to_owned(), clock, options, store, runtime: Some(runtime), database: None }
    }

    /// Where its database is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

#[async_trait]
impl Harness for Postgres {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    /// Leases are rows here and survive their node, and so do gates. What the suite expects of a crash is that of a store
    /// with a single node, whose workers are told nothing any more.
    async fn crash(&mut self) {
        self.store.abandon();
        let others = connect(&self.url).await;
        others.batch_execute("DELETE FROM semel.node").await.expect("its number is free again");
        let opened = PostgresStore::open(&self.url, self.options.clone()).await;
        self.store = Arc::new(opened.expect("the store opens again"));
        self.store.forget_deliveries().await.expect("the leases are taken back");
    }
}

/// A connection beside the store's.
pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.store.abandon();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        drop(self.database.take());
    }
}
