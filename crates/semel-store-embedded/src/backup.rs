//! Backup while the store is in use, and restore.
//!
//! A backup is a directory with the database in it, as it was at one moment. The key index is not copied: it is derived,
//! and the first open rebuilds it. While a backup runs the log cannot start over, so it grows by what is written
//! meanwhile; it shrinks back afterwards.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use semel_store::StoreError;

use crate::maintenance::{Progress, Watcher, existing_db};
use crate::schema::{self, DB_FILE, meta};

/// Pages copied between two reports: 4 MiB.
const STEP_PAGES: i32 = 1024;

/// What a copy is called until it is whole.
const PARTIAL: &str = "semel.partial";

/// Epochs skipped by a restore. The backup does not know how often the store was opened after it was made, and tokens of
/// those epochs may be out there: a restored store must hand out greater ones.
const RESTORE_EPOCHS: i64 = 4096;

/// Copies the store in `dir` to the directory `to`, which must be empty or absent. The store may be in use.
pub fn backup(dir: &Path, to: &Path, watch: Watcher<'_>) -> Result<(), StoreError> {
    let source = schema::open_reader(&existing_db(dir)?)?;
    whole_or_nothing(to, || {
        let staged = stage(&source, to, watch)?;
        finish(&staged, to)
    })
}

/// Makes a store in `to`, which must be empty or absent, from the backup in `from`.
pub fn restore(from: &Path, to: &Path, watch: Watcher<'_>) -> Result<(), StoreError> {
    let source = schema::open_reader(&existing_db(from)?)?;
    whole_or_nothing(to, || {
        let staged = stage(&source, to, watch)?;
        begin_anew(&staged)?;
        finish(&staged, to)
    })
}

/// Raises the epoch of a copy above all that its original may have had.
fn begin_anew(staged: &Path) -> Result<(), StoreError> {
    let raise = |conn: &Connection| {
        conn.execute("UPDATE meta SET value = value + ?1 WHERE name = ?2", (RESTORE_EPOCHS, meta::EPOCH))
    };
    let conn = schema::open(staged)?;
    let emptied = |conn: &Connection| conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    raise(&conn).and_then(|_| emptied(&conn)).map_err(|e| failed("write to", staged, &e))?;
    conn.close().map_err(|(_, e)| failed("close", staged, &e))
}

/// Makes a copy in `to`. One that fails, because the disk is full, leaves no part of itself behind: it would stand in the way
/// of the next.
fn whole_or_nothing(to: &Path, make: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    let was_there = to.exists();
    fs::create_dir_all(to).map_err(|e| failed("make", to, &e))?;
    let taken = fs::read_dir(to).map_err(|e| failed("list", to, &e))?.next().is_some();
    if taken {
        return Err(StoreError::Open(format!("{} is not empty: give a new directory", to.display())));
    }
    let made = make();
    if made.is_err() {
        // What went wrong is told; that it could not be cleared away either would only hide it.
        drop(remove_parts(to).and_then(|()| if was_there { Ok(()) } else { fs::remove_dir(to) }));
    }
    made
}

fn remove_parts(to: &Path) -> std::io::Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let part = to.join(format!("{PARTIAL}{suffix}"));
        if part.exists() {
            fs::remove_file(part)?;
        }
    }
    Ok(())
}

/// Copies to another name first: a copy that was cut short does not look like a store.
fn stage(source: &Connection, to: &Path, watch: Watcher<'_>) -> Result<std::path::PathBuf, StoreError> {
    let staged = to.join(PARTIAL);
    let mut target = Connection::open(&staged).map_err(|e| failed("make", &staged, &e))?;
    // The copy is one moment's: as long as this transaction is open, the source does not change under it.
    let snapshot = source.unchecked_transaction().map_err(|e| failed("read", to, &e))?;
    let pages = snapshot
        .query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0))
        .and_then(|_| copy_pages(&snapshot, &mut target, watch));
    pages.map_err(|e| failed("copy to", &staged, &e))?;
    target.close().map_err(|(_, e)| failed("close", &staged, &e))?;
    Ok(staged)
}

fn copy_pages(source: &Connection, target: &mut Connection, watch: Watcher<'_>) -> rusqlite::Result<()> {
    let backup = Backup::new(source, target)?;
    loop {
        let step = backup.step(STEP_PAGES)?;
        let pages = backup.progress();
        let total = u64::try_from(pages.pagecount).unwrap_or(0);
        let left = u64::try_from(pages.remaining).unwrap_or(0);
        watch(Progress { step: "copying pages", done: total.saturating_sub(left), total });
        if step == StepResult::Done {
            return Ok(());
        }
    }
}

fn finish(staged: &Path, to: &Path) -> Result<(), StoreError> {
    let put = || {
        File::open(staged)?.sync_all()?;
        fs::rename(staged, to.join(DB_FILE))?;
        File::open(to)?.sync_all()
    };
    put().and_then(|()| remove_parts(to)).map_err(|e: std::io::Error| failed("finish", to, &e))
}

fn failed(what: &str, path: &Path, e: &dyn std::fmt::Display) -> StoreError {
    StoreError::Open(format!("cannot {what} {}: {e}", path.display()))
}
