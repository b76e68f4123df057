//! Reading a store from end to end, to move it elsewhere. Nobody else may have it open, and nothing of it is changed: the
//! database, its log and the key index stay as they are.

mod identity;
mod jobs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::records::QueueRecord;
use semel_store::StoreError;
use semel_store::transfer::{Holdings, KeptQueue, Source};
use semel_store::working::{QueueId, Stored};
use serde::de::DeserializeOwned;

use crate::db::job_id;
use crate::engine::seed;
use crate::fault::Fault;
use crate::lock::DirLock;
use crate::maintenance::{estimate_jobs, existing_db};
use crate::queues::{Counts, QueueRow};
use crate::record::open_json;
use crate::schema::{self, meta};
use crate::unclosed;

/// A store that is being read from end to end.
#[derive(Debug)]
pub struct Export {
    dir: PathBuf,
    conn: Connection,
    /// What the queues are called, the deleted ones included.
    names: BTreeMap<u32, QueueName>,
    _lock: DirLock,
}

impl Export {
    /// Takes the store in `dir`, which must exist and must not be in use.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let db = existing_db(dir)?;
        let lock = DirLock::take(dir)?;
        unclosed::require_log(dir)?;
        let conn = schema::open_reader(&db)?;
        let queues = queues(&conn).map_err(|fault| fault.rolled_back())?;
        let names = queues.into_iter().map(|(no, row, _)| (no, row.name)).collect();
        Ok(Self { dir: dir.to_owned(), conn, names, _lock: lock })
    }

    fn read_holdings(&self) -> Result<Holdings, Fault> {
        let epoch = self.meta(meta::EPOCH)?;
        let queues = queues(&self.conn)?;
        Ok(Holdings {
            origin: identity::origin(&self.conn, &self.dir)?,
            epoch: u32::try_from(epoch).map_err(|_| Fault::Broken(format!("{epoch} is not an epoch")))?,
            last_id: self.last_id()?,
            jobs: estimate_jobs(&self.conn)?,
            queues: queues.into_iter().map(|(no, row, counts)| kept(no, row, counts)).collect(),
            schedules: self.records("schedule")?,
            api_keys: self.records("api_key")?,
            replays: self.records("replay")?,
        })
    }

    fn meta(&self, name: &str) -> Result<i64, Fault> {
        Ok(self.conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))?)
    }

    /// The largest id that was ever made; its job may be gone.
    fn last_id(&self) -> Result<JobId, Fault> {
        let newest: Option<i64> = self.conn.query_row("SELECT max(id) FROM job", [], |row| row.get(0))?;
        Ok(job_id(self.meta(meta::LAST_ID)?.max(newest.unwrap_or(0)))?)
    }

    /// All records of a small table, by name.
    fn records<T: DeserializeOwned>(&self, table: &'static str) -> Result<Vec<T>, Fault> {
        // A store that was last opened by an older program may lack one.
        if !self.conn.table_exists(None, table)? {
            return Ok(Vec::new());
        }
        let mut all = self.conn.prepare(&format!("SELECT name, rec FROM {table} ORDER BY name"))?;
        let mut rows = all.query([])?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            records.push(open_json(rec, seed(&name)).map_err(|damage| Fault::damaged(table, &name, damage))?);
        }
        Ok(records)
    }
}

impl Source for Export {
    fn holdings(&mut self) -> Result<Holdings, StoreError> {
        self.read_holdings().map_err(|fault| fault.rolled_back())
    }

    fn jobs_after(
        &mut self,
        after: JobId,
        most: usize,
        most_bytes: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.page(after, most, most_bytes).map_err(|fault| fault.rolled_back())
    }
}

/// All queues by number, with their counts and gates.
fn queues(conn: &Connection) -> Result<Vec<(u32, QueueRow, Counts)>, Fault> {
    let mut all =
        conn.prepare("SELECT q.id, q.rec, c.rec FROM queue q JOIN counter c ON c.id = q.id ORDER BY q.id")?;
    let mut rows = all.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let no: u32 = row.get(0)?;
        let blob =
            |at| -> Result<&[u8], Fault> { Ok(row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?) };
        let queue =
            open_json(blob(1)?, u64::from(no)).map_err(|damage| Fault::damaged("queue", no, damage))?;
        let counts =
            open_json(blob(2)?, u64::from(no)).map_err(|damage| Fault::damaged("counter", no, damage))?;
        queues.push((no, queue, counts));
    }
    Ok(queues)
}

/// A queue as the next open of the store would find it.
fn kept(no: u32, row: QueueRow, counts: Counts) -> KeptQueue {
    let mut gate = counts.gate;
    gate.restarted();
    let QueueRow { name, config, created_at, deleted, secrets } = row;
    KeptQueue {
        id: QueueId(no.into()),
        record: QueueRecord { name, config, gate, secrets, created_at },
        deleted,
    }
}
