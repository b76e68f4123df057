//! What an SQLite in trouble answers: an error, never "new".

use std::time::Duration;

use rusqlite::Connection;
use semel_ledger::sqlite::Sqlite;
use semel_ledger::store::{Hold, Store};
use semel_ledger::{Call, Ledger, StoreErrorKind, Verdict};

use super::OnSqlite;
use crate::modes::transactional::TABLE;
use crate::trouble::{MINUTE, claim, granted};

#[tokio::test]
async fn a_full_database_refuses_and_goes_on_when_there_is_room() {
    let on = OnSqlite::start().await;
    let connection = Connection::open(on.path()).unwrap();
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    let store = Sqlite::new(connection);
    let holder = granted(&store, "one").await;
    let long = format!("\"{}\"", "x".repeat(100_000));
    let error = store.complete(&holder, &long, MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("make it writable"), "{error}");
    // The claim is as it was, and another connection, without the limit, records it.
    assert_eq!(on.store.complete(&holder, &long, MINUTE).await.unwrap(), Hold::Held(()));
}

#[tokio::test]
async fn a_read_only_database_refuses() {
    let on = OnSqlite::start().await;
    granted(&on.store, "one").await;
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = Sqlite::new(Connection::open_with_flags(on.path(), flags).unwrap());
    let error = store.claim(&claim("two")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
}

#[tokio::test]
async fn a_database_without_a_ledger_says_what_to_do() {
    let error = Sqlite::new(Connection::open_in_memory().unwrap()).claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Schema, "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_not_taken_for_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    std::fs::write(&path, "this is not a database, and long enough to be looked at".repeat(40)).unwrap();
    let error = Sqlite::open(&path).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn a_database_that_others_write_to_for_long_is_in_progress_or_unavailable() {
    let on = OnSqlite::start().await;
    let other = Connection::open(on.path()).unwrap();
    other.execute_batch(TABLE).unwrap();
    let impatient = Connection::open(on.path()).unwrap();
    impatient.busy_timeout(Duration::from_millis(1)).unwrap();
    let store = Sqlite::new(impatient);
    let ledger = Ledger::builder(store.clone(), "billing").build().unwrap();
    let call = Call::new("order-9482").unwrap();
    let charge = |connection: &Connection| connection.execute("INSERT INTO charge VALUES ('x')", []);

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let verdict = ledger.transact(&call, charge).await.unwrap();
    assert!(matches!(verdict, Verdict::InProgress { .. }), "{verdict:?}");
    let error = store.claim(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ledger.transact(&call, charge).await.unwrap(), Verdict::Applied(1));
    assert_eq!(ledger.transact(&call, charge).await.unwrap(), Verdict::Replayed(1));
}

#[tokio::test]
async fn an_effect_that_fails_or_panics_is_rolled_back() {
    let on = OnSqlite::start().await;
    let other = Connection::open(on.path()).unwrap();
    other.execute_batch(TABLE).unwrap();
    let ledger = Ledger::builder(on.store.clone(), "billing").build().unwrap();
    let call = Call::new("order-9482").unwrap();
    let charge = |connection: &Connection| connection.execute("INSERT INTO charge VALUES ('x')", []);
    let failing = move |connection: &Connection| charge(connection).and(Err(rusqlite::Error::InvalidQuery));
    assert!(ledger.transact::<usize, _, _>(&call, failing).await.is_err());
    let panicking = move |connection: &Connection| -> Result<usize, rusqlite::Error> {
        charge(connection).unwrap();
        panic!("a bug in the effect")
    };
    assert!(ledger.transact(&call, panicking).await.is_err());
    let rows: u32 = other.query_row("SELECT count(*) FROM charge", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
    assert_eq!(ledger.transact(&call, charge).await.unwrap(), Verdict::Applied(1));
}
