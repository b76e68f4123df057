//! Looking at a store's directory: sizes and counts. Works while the store is in use.

use std::path::Path;

use rusqlite::Connection;
use semel_core::name::QueueName;
use semel_store::StoreError;
use serde::Serialize;

use crate::fault::Fault;
use crate::maintenance::existing_db;
use crate::queues::{Counts, QueueRow};
use crate::record::open_json;
use crate::schema::{self, FORMAT, KEYS_DIR, LOG_FILE, meta};

/// A queue's counts as they are on disk: leases are in memory, so what a worker has counts as unfinished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// The queue.
    pub queue: QueueName,
    /// Jobs that have not ended.
    pub unfinished: u64,
    /// Completed jobs still kept.
    pub completed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Cancelled jobs still kept.
    pub cancelled: u64,
}

/// What a store's directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Version of the format.
    pub format: i32,
    /// How often the store has been opened.
    pub epoch: u64,
    /// Bytes of the database file.
    pub database_bytes: u64,
    /// Bytes of it that are free for new rows.
    pub free_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Runs of the key index.
    pub key_runs: u64,
    /// Bytes of the key index.
    pub key_bytes: u64,
    /// Counts of each queue, by name.
    pub queues: Vec<QueueCounts>,
}

/// Looks at the store in `dir`.
pub fn inspect(dir: &Path) -> Result<Inspection, StoreError> {
    let db = existing_db(dir)?;
    let conn = schema::open_reader(&db)?;
    let read = || -> Result<Inspection, Fault> {
        let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let free = pragma("freelist_count")?.cast_unsigned() * pragma("page_size")?.cast_unsigned();
        let epoch: i64 =
            conn.query_row("SELECT value FROM meta WHERE name = ?1", [meta::EPOCH], |row| row.get(0))?;
        let (key_runs, key_bytes) = key_files(&dir.join(KEYS_DIR));
        Ok(Inspection {
            format: FORMAT,
            epoch: epoch.cast_unsigned(),
            database_bytes: size(&db),
            free_bytes: free,
            log_bytes: size(&dir.join(LOG_FILE)),
            key_runs,
            key_bytes,
            queues: queues(&conn)?,
        })
    };
    read().map_err(|fault| fault.rolled_back())
}

fn queues(conn: &Connection) -> Result<Vec<QueueCounts>, Fault> {
    let mut all = conn.prepare("SELECT q.id, q.rec, c.rec FROM queue q JOIN counter c ON c.id = q.id")?;
    let mut rows = all.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let no: u32 = row.get(0)?;
        let blob =
            |at| -> Result<&[u8], Fault> { Ok(row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?) };
        let queue: QueueRow =
            open_json(blob(1)?, u64::from(no)).map_err(|damage| Fault::damaged("queue", no, damage))?;
        let counts: Counts =
            open_json(blob(2)?, u64::from(no)).map_err(|damage| Fault::damaged("counter", no, damage))?;
        let Counts { unfinished, completed, dead, cancelled, .. } = counts;
        if !queue.deleted {
            queues.push(QueueCounts { queue: queue.name, unfinished, completed, dead, cancelled });
        }
    }
    queues.sort_by(|a, b| a.queue.cmp(&b.queue));
    Ok(queues)
}

pub(crate) fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

fn key_files(dir: &Path) -> (u64, u64) {
    let Ok(entries) = dir.read_dir() else { return (0, 0) };
    let runs = entries
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "run"));
    runs.fold((0, 0), |(n, bytes), path| (n + 1, bytes + size(&path)))
}
