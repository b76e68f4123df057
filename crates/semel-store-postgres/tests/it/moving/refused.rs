//! Moves that are refused, with what to do about it.

use std::path::Path;
use std::sync::Arc;

use semel_cluster::Database;
use semel_store::{ManualClock, Store, StoreError};
use semel_store_embedded::export::Export;
use semel_store_postgres::{Options, PostgresStore, import, migrate};
use tempfile::TempDir;

use super::source::Troubled;
use super::world::{Actor, START, draft, embedded, keyed};
use crate::harness::{empty_database, runtime};

/// A store with a few jobs.
fn small() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    publish(dir.path(), 0..20);
    dir
}

fn publish(dir: &Path, numbers: std::ops::Range<u32>) {
    let store = embedded(dir, &Arc::new(ManualClock::at(START)));
    runtime().block_on(async {
        let actor = Actor { store: &store };
        actor.puts_queue("orders", Default::default()).await;
        for n in numbers {
            actor.publishes(keyed("orders", &format!("order-{n}"))).await;
        }
        store.close().await.unwrap();
    });
}

/// Moves, and says why that is refused.
fn refusal(dir: &Path, database: &Database<'_>) -> String {
    let source = Box::new(Export::open(dir).unwrap());
    match runtime().block_on(import::import(database.url(), source, &mut |_| {})) {
        Err(StoreError::Open(why)) => why,
        other => panic!("it must be refused: {other:?}"),
    }
}

fn begin(dir: &Path, database: &Database<'_>) {
    let cut = |read| if read < 1 { Ok(()) } else { Err(StoreError::Failed("killed".into())) };
    let source = Troubled::new(dir, 5, cut);
    runtime().block_on(import::import(database.url(), source, &mut |_| {})).unwrap_err();
}

#[test]
fn a_directory_that_is_in_use_is_not_moved() {
    let dir = small();
    let store = embedded(dir.path(), &Arc::new(ManualClock::at(START)));
    let Err(StoreError::Open(why)) = Export::open(dir.path()) else { panic!("it must be refused") };
    assert!(why.contains("in use by process") && why.contains("stop the other"), "{why}");
    store.abandon();
    let open = Export::open(dir.path()).expect("it is free when the other has stopped");
    let Err(StoreError::Open(why)) = Export::open(dir.path()) else { panic!("nor do two moves share it") };
    assert!(why.contains("in use"), "{why}");
    drop(open);
}

#[test]
fn a_directory_without_a_store_is_not_moved_and_gets_none() {
    let dir = tempfile::tempdir().unwrap();
    let Err(StoreError::Open(why)) = Export::open(dir.path()) else { panic!("it must be refused") };
    assert!(why.contains("is not a store"), "{why}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_database_with_something_in_it_is_left_alone() {
    let (dir, database) = (small(), empty_database());
    runtime().block_on(async {
        let store = PostgresStore::open(database.url(), Options::default()).await.unwrap();
        let actor = Actor { store: &store };
        actor.puts_queue("mine", Default::default()).await;
        actor.publishes(draft("mine", "precious")).await;
        store.close().await.unwrap();
    });
    let why = refusal(dir.path(), &database);
    assert!(why.contains("has queues, jobs in it already"), "{why}");
    assert_eq!(database.sql("SELECT count(*) FROM semel.queue").unwrap(), "1");
    assert_eq!(database.sql("SELECT count(*) FROM semel.move").unwrap(), "0");
}

#[test]
fn a_database_on_which_a_server_works_is_left_alone() {
    let (dir, database) = (small(), empty_database());
    let runtime = runtime();
    let options = Options { node_name: "busy-server".into(), ..Options::default() };
    let store = runtime.block_on(PostgresStore::open(database.url(), options)).unwrap();
    let why = refusal(dir.path(), &database);
    assert!(why.contains("busy-server") && why.contains("stop it first"), "{why}");
    runtime.block_on(store.close()).unwrap();
    runtime.block_on(super::world::moved(dir.path(), database.url()));
}

#[test]
fn a_move_of_one_store_does_not_go_on_with_another() {
    let (dir, other, database) = (small(), small(), empty_database());
    begin(dir.path(), &database);
    let why = refusal(other.path(), &database);
    assert!(why.contains("is another store") && why.contains("empty database"), "{why}");
    runtime().block_on(super::world::moved(dir.path(), database.url()));
    let why = refusal(other.path(), &database);
    assert!(why.contains("is another store"), "{why}");
}

#[test]
fn a_store_that_was_used_in_between_is_not_gone_on_with() {
    let (dir, database) = (small(), empty_database());
    begin(dir.path(), &database);
    publish(dir.path(), 20..21);
    let why = refusal(dir.path(), &database);
    assert!(why.contains("in use since") && why.contains("DROP SCHEMA semel CASCADE"), "{why}");
    database.sql("DROP SCHEMA semel CASCADE").unwrap();
    runtime().block_on(super::world::moved(dir.path(), database.url()));
}

#[test]
fn nothing_is_compared_before_it_has_been_moved() {
    let (dir, database) = (small(), empty_database());
    let verify = || {
        let source = Box::new(Export::open(dir.path()).unwrap());
        match runtime().block_on(import::verify(database.url(), source, &mut |_| {})) {
            Err(StoreError::Open(why)) => assert!(why.contains("without --verify"), "{why}"),
            other => panic!("it must be refused: {other:?}"),
        }
    };
    verify();
    runtime().block_on(migrate(database.url())).unwrap();
    verify();
    begin(dir.path(), &database);
    verify();
}

#[test]
fn what_cannot_be_read_stops_the_move_and_is_named() {
    let (dir, database) = (small(), empty_database());
    flip(&dir.path().join("semel.db"), b"order-7");
    let source = Box::new(Export::open(dir.path()).unwrap());
    let moved = runtime().block_on(import::import(database.url(), source, &mut |_| {}));
    let Err(StoreError::Corrupt(why)) = moved else { panic!("it must stop: {moved:?}") };
    assert!(why.contains("job_"), "{why}");
}

/// Flips a bit of `text` wherever it stands in a file.
fn flip(file: &Path, text: &[u8]) {
    let mut bytes = std::fs::read(file).unwrap();
    let windows = bytes.windows(text.len()).enumerate();
    let places: Vec<_> = windows.filter(|(_, window)| *window == text).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the text is on disk");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(file, bytes).unwrap();
}
