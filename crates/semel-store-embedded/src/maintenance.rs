//! What maintenance commands share: progress, and a store's directory held without an engine.

use std::path::Path;

use rusqlite::Connection;
use semel_store::StoreError;
pub use semel_store::{Progress, Watcher};

use crate::fault::Fault;
use crate::lock::DirLock;
use crate::schema;
use crate::unclosed;

/// Steps between two reports.
pub(crate) const REPORT_EVERY: u64 = 10_000;

/// A store's directory in the hands of a maintenance command: nobody else can open it meanwhile.
pub(crate) struct Held {
    pub(crate) conn: Connection,
    _lock: DirLock,
}

impl Held {
    /// Takes the directory of a store that exists.
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let db = existing_db(dir)?;
        let lock = DirLock::take(dir)?;
        unclosed::require_log(dir)?;
        Ok(Self { conn: schema::open(&db)?, _lock: lock })
    }
}

/// The database of a store that exists: a maintenance command never makes one.
pub(crate) fn existing_db(dir: &Path) -> Result<std::path::PathBuf, StoreError> {
    let db = dir.join(schema::DB_FILE);
    if db.is_file() {
        return Ok(db);
    }
    Err(StoreError::Open(format!("{} is not a store: there is no {} in it", dir.display(), schema::DB_FILE)))
}

/// Roughly how many job rows there are, without counting them.
pub(crate) fn estimate_jobs(conn: &Connection) -> Result<u64, Fault> {
    let mut counters = conn.prepare("SELECT id, rec FROM counter")?;
    let mut rows = counters.query([])?;
    let mut jobs = 0;
    while let Some(row) = rows.next()? {
        let no: u64 = row.get::<_, i64>(0)?.cast_unsigned();
        let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        // A damaged counter is reported by the check that follows; here it only spoils an estimate.
        if let Ok(counts) = crate::record::open_json::<crate::queues::Counts>(rec, no) {
            jobs += counts.unfinished + counts.completed + counts.dead + counts.cancelled;
        }
    }
    Ok(jobs)
}
