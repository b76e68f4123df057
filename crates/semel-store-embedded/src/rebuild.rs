//! Rebuilding the key index from the job rows.

use std::path::Path;

use semel_store::StoreError;

use crate::Options;
use crate::db::{Db, job_id};
use crate::engine::key_hasher;
use crate::fault::Fault;
use crate::keys::{self, KeyIndex};
use crate::maintenance::{Held, Progress, REPORT_EVERY, Watcher, estimate_jobs};
use crate::record::decode_job;
use crate::schema::{KEYS_DIR, meta};

/// What a rebuild did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// Job rows read.
    pub jobs: u64,
    /// Keys put into the index.
    pub keys: u64,
}

/// Throws the key index of the store in `dir` away and makes it anew. No one else may have the store open.
pub fn rebuild_index(dir: &Path, watch: Watcher<'_>) -> Result<Rebuilt, StoreError> {
    let held = Held::take(dir)?;
    run(&held, dir, watch).map_err(|fault| fault.rolled_back())
}

fn run(held: &Held, dir: &Path, watch: Watcher<'_>) -> Result<Rebuilt, Fault> {
    let db = Db::prepare(&held.conn)?;
    let hasher = key_hasher(&db, &Options::default())?;
    let keys_dir = dir.join(KEYS_DIR);
    if keys_dir.exists() {
        KeyIndex::wipe(&keys_dir)?;
    }
    let (mut index, _) = KeyIndex::open(&keys_dir, keys::Options::new(&hasher), db.meta(meta::FLOOR)?)?;
    let total = estimate_jobs(&held.conn)?;
    let mut rebuilt = Rebuilt { jobs: 0, keys: 0 };
    let mut rows = held.conn.prepare("SELECT id, rec FROM job ORDER BY id")?;
    let mut rows = rows.query([])?;
    let mut last = 0;
    while let Some(row) = rows.next()? {
        let id = job_id(row.get(0)?)?;
        let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let job = decode_job(rec, id).map_err(|damage| Fault::damaged("job", id, damage))?;
        if let Some(key) = job.key {
            index.insert(hasher.hash(job.queue_no, key), id.raw())?;
            rebuilt.keys += 1;
        }
        last = id.raw();
        rebuilt.jobs += 1;
        index.advance(last);
        index.maybe_seal(last)?;
        if rebuilt.jobs.is_multiple_of(REPORT_EVERY) {
            watch(Progress { step: "reading jobs", done: rebuilt.jobs, total: total.max(rebuilt.jobs) });
        }
    }
    index.seal(last)?;
    index.flush()?;
    watch(Progress { step: "reading jobs", done: rebuilt.jobs, total: rebuilt.jobs });
    Ok(rebuilt)
}
