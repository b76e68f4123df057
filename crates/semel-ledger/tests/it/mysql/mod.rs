//! MariaDB keeps the law, and answers with errors when it cannot.

mod commits;
mod faults;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_cluster::{MariaDatabase, SharedMaria};
use semel_ledger::Scope;
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::store::Store;
use semel_ledger::suite::{self, Harness};
use sqlx::mysql::MySqlPoolOptions;

use crate::trouble::scope;

/// A database of one test's own on the shared MariaDB.
pub(crate) struct OnMaria {
    pub(crate) store: SqlxMySql,
    pub(crate) database: MariaDatabase<'static>,
}

impl OnMaria {
    pub(crate) async fn start() -> Self {
        let database = SharedMaria::get().unwrap().database().unwrap();
        let store = SqlxMySql::new(pool(database.url(), Duration::from_secs(30)).await);
        store.ensure_schema().await.unwrap();
        Self { store, database }
    }
}

/// A pool that looks for a connection for so long.
pub(crate) async fn pool(url: &str, patience: Duration) -> sqlx::MySqlPool {
    MySqlPoolOptions::new().max_connections(8).acquire_timeout(patience).connect(url).await.unwrap()
}

#[async_trait]
impl Harness for OnMaria {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    /// All times move back: its clock cannot be moved.
    async fn pass(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap();
        sqlx::query(
            "UPDATE semel_ledger_entry
             SET since = since - ?, `until` = `until` - ?, done_at = done_at - ?, expires_at = expires_at - ?",
        )
        .bind(millis)
        .bind(millis)
        .bind(millis)
        .bind(millis)
        .execute(self.store.pool())
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_keeps_the_law() {
    suite::check(&OnMaria::start().await).await;
}

#[tokio::test]
async fn keys_are_bytes_whatever_the_collation() {
    let maria = OnMaria::start().await;
    let keys = ["order", "ORDER", "order ", "örder"].map(scope);
    let ttl = Duration::from_secs(60);
    assert_eq!(maria.store.mark(&keys, ttl).await.unwrap(), [true; 4]);
    assert_eq!(maria.store.mark(&keys, ttl).await.unwrap(), [false; 4]);
}

#[tokio::test]
async fn more_scopes_than_go_into_a_statement_are_marked_and_looked_up() {
    let maria = OnMaria::start().await;
    let mut scopes: Vec<Scope> = (0..1_100).map(|n| scope(&format!("key-{n}"))).collect();
    scopes.push(scope("key-7"));
    let marked = maria.store.mark(&scopes, Duration::from_secs(60)).await.unwrap();
    assert_eq!(marked.iter().filter(|first| **first).count(), 1_100);
    assert!(!marked[1_100], "the second of two equal ones is not the first");
    let found = maria.store.lookup(&scopes).await.unwrap();
    assert!(found.iter().all(Option::is_some));
}
