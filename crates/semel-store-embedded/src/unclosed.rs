//! The mark of a store that was not closed: its log must be there.
//!
//! What was committed last is in the log until it is moved into the database. If somebody deletes the log of a store that
//! was killed, the database alone looks like an older, perhaps an empty store, and nothing in it says otherwise. So while a
//! store is open there is a file that says that its log matters, and closing, which empties the log, takes it away.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use semel_store::StoreError;

use crate::log;
use crate::schema::LOG_FILE;

/// Name of the mark.
pub(crate) const MARK_FILE: &str = "semel.open";

fn failed(what: &str, path: &Path, e: &io::Error) -> StoreError {
    StoreError::Open(format!("cannot {what} {}: {e}", path.display()))
}

fn mark_of(dir: &Path) -> PathBuf {
    dir.join(MARK_FILE)
}

/// Says that the log matters, durably. Called once the log has its first page and before anything is answered.
pub(crate) fn mark(dir: &Path) -> Result<(), StoreError> {
    let path = mark_of(dir);
    if path.exists() {
        return Ok(());
    }
    let put = || {
        File::create(&path)?.sync_all()?;
        File::open(dir)?.sync_all()
    };
    put().map_err(|e| failed("write", &path, &e))
}

/// Says that everything is in the database.
pub(crate) fn clear(dir: &Path) -> Result<(), StoreError> {
    let path = mark_of(dir);
    let take = || {
        fs::remove_file(&path)?;
        File::open(dir)?.sync_all()
    };
    take().map_err(|e: io::Error| failed("remove", &path, &e))
}

/// Refuses a store whose log is gone although it was not closed, or in which acknowledged commits are damaged.
pub(crate) fn require_log(dir: &Path) -> Result<(), StoreError> {
    let log = dir.join(LOG_FILE);
    let empty = log.metadata().map_or(true, |meta| meta.len() < log::ONE_FRAME);
    if mark_of(dir).exists() && empty {
        return Err(StoreError::Open(format!(
            "{} was not closed, and its log {} is missing or empty: put the log back, or restore from a backup. If another \
             program has moved the log into the database (an SQLite shell does), delete {MARK_FILE} to accept it as it is",
            dir.display(),
            log.display()
        )));
    }
    log::require_whole(&log)
}
