//! PostgreSQL keeps the law, through both drivers.

mod faults;
mod full;
mod partitions;
mod pooler;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_cluster::{Database, Shared, Template, sql_at};
use semel_ledger::postgres::{MIGRATIONS, Reconnecting, SqlxPostgres, TokioPostgres};
use semel_ledger::store::Store;
use semel_ledger::suite::{self, Harness};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio_postgres::{Client, NoTls};

pub(crate) type Tokio = TokioPostgres<Reconnecting<NoTls>>;

/// A database of one test's own with a ledger in it.
pub(crate) fn database() -> Database<'static> {
    let template = Template { name: "ledger", content: MIGRATIONS[0] };
    let made = Shared::get().unwrap().database(&template, |url| sql_at(url, &MIGRATIONS).map(drop));
    made.unwrap()
}

pub(crate) fn empty_database() -> Database<'static> {
    Shared::get().unwrap().database(&Template::EMPTY, |_| Ok::<_, String>(())).unwrap()
}

pub(crate) fn tokio_store(url: &str) -> Tokio {
    TokioPostgres::new(Reconnecting::new(url.parse().unwrap(), NoTls))
}

pub(crate) async fn pool(url: &str) -> PgPool {
    let patience = Duration::from_secs(1);
    PgPoolOptions::new().max_connections(8).acquire_timeout(patience).connect(url).await.unwrap()
}

pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// All times move back: the server's clock cannot be moved.
pub(crate) async fn pass(client: &Client, span: Duration) {
    let millis = i64::try_from(span.as_millis()).unwrap();
    let sql = "UPDATE semel_ledger.entry
               SET since = since - $1, until = until - $1, done_at = done_at - $1, expires_at = expires_at - $1";
    client.execute(sql, &[&millis]).await.unwrap();
}

struct On {
    store: Arc<dyn Store>,
    client: Client,
    /// Prune drops whole days.
    by_day: bool,
    _database: Database<'static>,
}

#[async_trait]
impl Harness for On {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn pass(&self, span: Duration) {
        pass(&self.client, span).await;
    }

    fn expires_by_itself(&self) -> bool {
        self.by_day
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_through_tokio_postgres_keeps_the_law() {
    let database = database();
    let (store, client) = (Arc::new(tokio_store(database.url())), client(database.url()).await);
    suite::check(&On { store, client, by_day: false, _database: database }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_through_sqlx_keeps_the_law() {
    let database = database();
    let store = Arc::new(SqlxPostgres::new(pool(database.url()).await));
    let client = client(database.url()).await;
    suite::check(&On { store, client, by_day: false, _database: database }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_made_by_whoever_comes_first() {
    let database = empty_database();
    let stores: Vec<Arc<dyn Store>> = vec![
        Arc::new(tokio_store(database.url())),
        Arc::new(tokio_store(database.url())),
        Arc::new(SqlxPostgres::new(pool(database.url()).await)),
        Arc::new(SqlxPostgres::new(pool(database.url()).await)),
    ];
    let making = stores.iter().map(Store::ensure_schema);
    let made = futures_util::future::join_all(making).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    assert_eq!(database.sql("SELECT version FROM semel_ledger.migration").unwrap(), "1");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = database();
    database.sql("INSERT INTO semel_ledger.migration (version) VALUES (2)").unwrap();
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(tokio_store(database.url())), Arc::new(SqlxPostgres::new(pool(database.url()).await))];
    for store in stores {
        let error = store.ensure_schema().await.unwrap_err();
        assert!(error.to_string().contains("is of version 2, and this program knows up to 1"), "{error}");
    }
}

/// A bite goes on where the one before it ended, and what somebody held meanwhile is not left behind.
#[tokio::test]
async fn an_entry_that_was_held_during_a_bite_is_removed_by_the_last_one() {
    let database = database();
    let (client, other) = (Arc::new(client(database.url()).await), client(database.url()).await);
    let fill = "INSERT INTO semel_ledger.entry (consumer, key, step, owner, token, since, until, done_at, expires_at)
                SELECT 'c', 'k' || n, '', '', 1, n, n, n, n FROM generate_series(1, 5) AS n";
    client.batch_execute(fill).await.unwrap();
    other.batch_execute("BEGIN; SELECT FROM semel_ledger.entry WHERE key = 'k1' FOR UPDATE").await.unwrap();
    let store = TokioPostgres::new(client.clone());
    assert_eq!(store.prune(2).await.unwrap(), 2);
    let place = "SELECT current_setting('semel_ledger.pruned_to')";
    let ended: String = client.query_one(place, &[]).await.unwrap().get(0);
    assert_eq!(ended, "3", "the next one begins there");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.prune(2).await.unwrap(), 2, "the fourth and the fifth");
    assert_eq!(store.prune(2).await.unwrap(), 1, "the first, which was held");
    assert_eq!(store.prune(2).await.unwrap(), 0);
    let ended: String = client.query_one(place, &[]).await.unwrap().get(0);
    assert_eq!(ended, "", "what expires from now on is looked for from the start");
}

/// The connection may be the application's: only the prune's own commit does not wait for the disk.
#[tokio::test]
async fn a_prune_leaves_the_settings_of_its_connection_alone() {
    let database = database();
    let client = Arc::new(client(database.url()).await);
    client.batch_execute("SET synchronous_commit = on").await.unwrap();
    let store = TokioPostgres::new(client.clone());
    assert_eq!(store.prune(10).await.unwrap(), 0);
    let now: String = client.query_one("SHOW synchronous_commit", &[]).await.unwrap().get(0);
    assert_eq!(now, "on");
}
