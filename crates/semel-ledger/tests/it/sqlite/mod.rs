//! SQLite keeps the law.

mod faults;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use semel_ledger::sqlite::Sqlite;
use semel_ledger::store::Store;
use semel_ledger::suite::{self, Harness};
use tempfile::TempDir;

/// A database in a directory of its own, with a ledger in it.
pub(crate) struct OnSqlite {
    pub(crate) store: Sqlite,
    pub(crate) directory: TempDir,
}

impl OnSqlite {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Sqlite::open(directory.path().join("app.db")).unwrap();
        store.ensure_schema().await.unwrap();
        Self { store, directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("app.db")
    }
}

/// All times move back: the machine's clock is not the test's to move.
pub(crate) fn pass(connection: &Connection, span: Duration) {
    let millis = i64::try_from(span.as_millis()).unwrap();
    let sql = "UPDATE semel_ledger
               SET since = since - ?1, until = until - ?1, done_at = done_at - ?1, expires_at = expires_at - ?1";
    connection.execute(sql, [millis]).unwrap();
}

#[async_trait]
impl Harness for OnSqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn pass(&self, span: Duration) {
        pass(&Connection::open(self.path()).unwrap(), span);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_the_law() {
    suite::check(&OnSqlite::start().await).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let on = OnSqlite::start().await;
    let connection = Connection::open(on.path()).unwrap();
    connection.execute("INSERT INTO semel_ledger_migration (version) VALUES (2)", []).unwrap();
    let error = on.store.ensure_schema().await.unwrap_err();
    assert!(error.to_string().contains("is of version 2, and this program knows up to 1"), "{error}");
}
