//! The stores that every scenario runs on.

use std::path::Path;
use std::sync::Arc;

use semel_cluster::{Database, Shared as Cluster, Template};
use semel_store::{Clock, ManualClock, MemoryStore, Shared, Store, StoreError};
use semel_store_embedded::EmbeddedStore;
use semel_store_postgres::{MIGRATIONS, PostgresStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::START;

/// Fewer partitions than in earnest: each costs a scenario some milliseconds.
const DAYS_AHEAD: u32 = 1;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    Embedded,
    Postgres,
}

/// Where a store lives that outlives its process.
pub(crate) struct Home {
    dir: TempDir,
    database: Option<Database<'static>>,
}

/// An open store, and what comes with one that others may use, too.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: Option<Arc<dyn Shared>>,
    pub(crate) postgres: Option<Arc<PostgresStore>>,
}

impl Opened {
    /// A store of one server alone.
    fn alone(store: impl Store) -> Self {
        Self { store: Arc::new(store), shared: None, postgres: None }
    }

    /// A node of as many as there are.
    pub(crate) fn node(store: PostgresStore) -> Self {
        let store = Arc::new(store);
        Self { store: store.clone(), shared: Some(store.clone()), postgres: Some(store) }
    }
}

impl Home {
    /// A directory for whatever a scenario needs one for.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The database of a PostgreSQL store.
    pub(crate) fn database(&self) -> &Database<'static> {
        self.database.as_ref().expect("only a PostgreSQL store has a database")
    }
}

impl Backend {
    /// A place without a store.
    pub(crate) async fn home(self) -> Home {
        let database = match self {
            Self::Postgres => Some(tokio::task::spawn_blocking(database).await.unwrap()),
            Self::Memory | Self::Embedded => None,
        };
        Home { dir: tempfile::tempdir().unwrap(), database }
    }

    /// Opens a store; one that outlives its process lives in `home`.
    pub(crate) async fn open(self, home: &Home, clock: Arc<dyn Clock>) -> Opened {
        match self {
            Self::Memory => Opened::alone(MemoryStore::new(clock)),
            Self::Embedded => {
                let options = semel_store_embedded::Options { clock, reserve_bytes: 0, ..Default::default() };
                Opened::alone(EmbeddedStore::open(&home.path().join("data"), options).unwrap())
            }
            Self::Postgres => {
                let opened = PostgresStore::open(home.database().url(), options(clock)).await;
                Opened::node(opened.unwrap())
            }
        }
    }
}

/// Settings of a PostgreSQL store whose clock a scenario moves.
pub(crate) fn options(clock: Arc<dyn Clock>) -> semel_store_postgres::Options {
    let (connections, days_ahead) = (8, DAYS_AHEAD);
    semel_store_postgres::Options { clock: Some(clock), connections, days_ahead, ..Default::default() }
}

/// A database with the schema of a store that was never used.
fn database() -> Database<'static> {
    let content: String = MIGRATIONS.iter().map(|migration| migration.sql).collect();
    let template = Template { name: "scenario", content: &content };
    let cluster = Cluster::get().expect("a PostgreSQL cluster starts");
    cluster.database(&template, prepare).expect("a database is made")
}

/// Opens a store, which makes its schema and the partitions of the first days, and leaves no trace of itself.
fn prepare(url: &str) -> Result<(), StoreError> {
    let runtime = Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        PostgresStore::open(url, options(Arc::new(ManualClock::at(START)))).await?.close().await
    })
}
