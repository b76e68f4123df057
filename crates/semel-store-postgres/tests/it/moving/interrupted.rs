//! A move that does not go through at once.

use std::path::Path;
use std::sync::Arc;

use semel_cluster::Database;
use semel_store::{ManualClock, Store, StoreError};
use semel_store_embedded::export::Export;
use semel_store_postgres::import::{self, Target};
use semel_store_postgres::{Options, PostgresStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::source::Troubled;
use super::world::{START, embedded, fill, moved};
use crate::harness::{empty_database, runtime};

/// A directory to be moved, and a database to move it to.
struct Ready {
    dir: TempDir,
    database: Database<'static>,
    runtime: Runtime,
}

impl Ready {
    fn new() -> Self {
        let ready =
            Self { dir: tempfile::tempdir().unwrap(), database: empty_database(), runtime: runtime() };
        let clock = Arc::new(ManualClock::at(START));
        ready.runtime.block_on(async {
            let store = embedded(ready.dir.path(), &clock);
            fill(&store, &clock).await;
            store.abandon();
        });
        ready
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn url(&self) -> &str {
        self.database.url()
    }

    /// A move that gets no further than a few pages.
    fn cut_short(&self, pages: u32) -> Result<(), StoreError> {
        let cut = move |read| if read < pages { Ok(()) } else { Err(StoreError::Failed("killed".into())) };
        let source = Troubled::new(self.path(), 5, cut);
        self.runtime.block_on(import::import(self.url(), source, &mut |_| {})).map(drop)
    }

    fn place(&self) -> u64 {
        self.database.sql("SELECT place FROM semel.move").unwrap().parse().unwrap()
    }

    fn opens(&self) -> Result<PostgresStore, StoreError> {
        self.runtime.block_on(PostgresStore::open(self.url(), Options::default()))
    }
}

#[test]
fn a_move_that_is_killed_again_and_again_goes_on_each_time() {
    let ready = Ready::new();
    let mut places = vec![0];
    loop {
        ready.cut_short(3).unwrap_err();
        let place = ready.place();
        let beyond = format!("SELECT count(*) FROM semel.job WHERE id > {place}");
        assert_eq!(ready.database.sql(&beyond).unwrap(), "0", "jobs and the place are of one moment");
        if places.last() == Some(&place) {
            // All jobs are through. It was the comparison that was killed.
            break;
        }
        assert!(place > places[places.len() - 1], "it does not go back");
        places.push(place);
    }
    assert!(places.len() > 5, "{places:?}");
    let report = ready.runtime.block_on(moved(ready.path(), ready.url()));
    assert!(report.resumed && report.moved == 0 && report.source.jobs > 60, "{report:?}");
}

#[test]
fn a_server_does_not_start_on_a_store_that_is_half_there() {
    let ready = Ready::new();
    ready.cut_short(2).unwrap_err();
    let Err(StoreError::Open(why)) = ready.opens() else { panic!("it must not open") };
    assert!(why.contains("is not finished") && why.contains("semel move --from"), "{why}");
    assert_eq!(ready.database.sql("SELECT count(*) FROM semel.node").unwrap(), "0");
    let publish = "SELECT deduplicated FROM semel.publish('orders', '{}', 'completed')";
    let refused = ready.database.sql(publish).unwrap_err().to_string();
    assert!(
        refused.contains("there is no queue orders"),
        "nor does an application get in by itself: {refused}"
    );
    ready.runtime.block_on(moved(ready.path(), ready.url()));
    assert_eq!(ready.database.sql(publish).unwrap(), "t", "its key has been moved");
    let store = ready.opens().expect("it opens when everything is there");
    ready.runtime.block_on(store.close()).unwrap();
}

#[test]
fn a_connection_that_breaks_is_no_matter() {
    let ready = Ready::new();
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'semel move' AND datname = current_database()";
    // The runtime waits for this source, so the database is asked by a program of its own.
    let url = ready.url().to_owned();
    let trouble = move |read| {
        if read % 4 == 2 {
            semel_cluster::sql_at(&url, &[kill]).map_err(|e| StoreError::Failed(e.to_string()))?;
        }
        Ok(())
    };
    let source = Troubled::new(ready.path(), 5, trouble);
    let report = ready.runtime.block_on(import::import(ready.url(), source, &mut |_| {})).unwrap().unwrap();
    assert!(report.differences.is_empty(), "{:#?}", report.differences);
    assert_eq!(report.source, report.target);
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let ready = Ready::new();
    let plan = || {
        let source = Box::new(Export::open(ready.path()).unwrap());
        ready.runtime.block_on(import::plan(ready.url(), source, &mut |_| {})).unwrap()
    };
    let first = plan();
    assert_eq!(first.target, Target::Empty);
    assert_eq!(first.migrations, semel_store_postgres::MIGRATIONS);
    assert_eq!(ready.database.sql("SELECT to_regnamespace('semel') IS NULL").unwrap(), "t");
    ready.cut_short(2).unwrap_err();
    assert_eq!(plan().target, Target::Begun);
    let report = ready.runtime.block_on(moved(ready.path(), ready.url()));
    let last = plan();
    assert_eq!((last.target, last.migrations.len()), (Target::Moved, 0));
    assert_eq!((&first.source, &last.source), (&report.source, &report.source));
}

#[test]
fn what_has_been_moved_is_not_moved_again() {
    let ready = Ready::new();
    ready.runtime.block_on(moved(ready.path(), ready.url()));
    let before = ready.database.sql("SELECT count(*), max(id) FROM semel.job").unwrap();
    let source = || Box::new(Export::open(ready.path()).unwrap());
    let again = ready.runtime.block_on(import::import(ready.url(), source(), &mut |_| {})).unwrap();
    assert!(again.is_none(), "{again:?}");
    assert_eq!(ready.database.sql("SELECT count(*), max(id) FROM semel.job").unwrap(), before);
    let report = ready.runtime.block_on(import::verify(ready.url(), source(), &mut |_| {})).unwrap();
    assert!(report.differences.is_empty() && report.moved == 0, "{report:?}");
}

#[test]
fn the_directory_stays_as_it_is() {
    let ready = Ready::new();
    let files = || {
        let mut files: Vec<_> = walk(ready.path());
        files.retain(|(name, _)| !name.ends_with("semel.lock") && !name.ends_with("-shm"));
        files
    };
    let before = files();
    assert!(before.iter().any(|(name, _)| name.ends_with("-wal")), "the store was not closed");
    ready.cut_short(3).unwrap_err();
    ready.runtime.block_on(moved(ready.path(), ready.url()));
    assert!(before == files(), "nothing of it has changed");
}

/// All files below a directory, with what is in them.
fn walk(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}
