//! Loading: what is on disk becomes the engine's memory. Every open takes this path, and so does every failed commit.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;
use semel_core::ids::{IdGenerator, JobId};
use semel_core::queue::Rules;

use super::{Engine, Sweep, Tidy, Traces};
use crate::Options;
use crate::db::{Db, job_id, sql};
use crate::fault::Fault;
use crate::keys::{Entry, IdRange, KeyHasher, KeyIndex};
use crate::leases::{Leases, Tokens};
use crate::queues::{Counts, Queue, QueueRow, Queues};
use crate::record::{decode_job, open_json};
use crate::schema::{KEYS_DIR, meta};
use crate::space::Space;

/// Entries put in the place of a missing part of the key index at a time: bounded memory, whatever is missing.
const REBUILD_ENTRIES: usize = 1 << 20;

impl<'c> Engine<'c> {
    /// Loads a store's memory from its directory. Without `tokens` to go on with a new epoch is made durable, before any
    /// token of it is handed out; with them nothing is written, so that a store whose disk is full can be loaded again.
    pub(crate) fn load(
        conn: &'c Connection,
        dir: &Path,
        options: &Options,
        tokens: Option<Tokens>,
    ) -> Result<Self, Fault> {
        let mut db = Db::prepare(conn)?;
        let tokens = tokens.map_or_else(|| new_epoch(&mut db), Ok)?;
        let last_id = last_id(&db)?;
        let hasher = key_hasher(&db, options)?;
        let (keys, tail_from) = open_keys(&db, dir, &hasher, options, last_id)?;
        let mut ids = IdGenerator::new(0);
        ids.resume_above(last_id);
        let sealed_to = id_from_meta(&db, meta::SEALED_TO)?;
        let mut engine = Self {
            queues: load_queues(&db, options.chunk_ids)?,
            now: options.clock.now(),
            clock: options.clock.clone(),
            ids,
            last_id,
            tokens,
            leases: Leases::default(),
            keys,
            hasher,
            traces: Traces::default(),
            sweep: Sweep::default(),
            tidy: Tidy::new(dir),
            space: Space::new(dir, options.reserve_bytes),
            index_stuck: false,
            sealed_to,
            unsealed: 0,
            segment_jobs: options.segment_jobs,
            chunk_ids: options.chunk_ids,
            empty_chunks: Vec::new(),
            batch_hashes: HashSet::new(),
            buffer: Vec::new(),
            sabotage: options.sabotage,
            db,
        };
        engine.load_chunk_list()?;
        engine.load_tail(tail_from)?;
        Ok(engine)
    }

    fn load_chunk_list(&mut self) -> Result<(), Fault> {
        for row in self.db.chunks()? {
            self.queue_mut_loading(row.queue)?.backlog.inherit(&row);
        }
        Ok(())
    }

    fn queue_mut_loading(&mut self, no: u32) -> Result<&mut Queue, Fault> {
        self.queues.get_mut(no).ok_or_else(|| {
            Fault::Broken(format!("a chunk refers to queue number {no}, which does not exist"))
        })
    }

    /// Reads the rows that are newer than what was sealed: their keys go to the index, and those that are plain and
    /// pending go to the backlogs.
    fn load_tail(&mut self, keys_from: u64) -> Result<(), Fault> {
        let from = keys_from.min(self.sealed_to.raw());
        let ended = self.ended_after(self.sealed_to)?;
        let mut rows = self.db.conn.prepare("SELECT id, rec FROM job WHERE id > ?1 ORDER BY id")?;
        let mut rows = rows.query([sql(from)])?;
        while let Some(row) = rows.next()? {
            let id = job_id(row.get(0)?)?;
            let job = decode_job(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, id)
                .map_err(|damage| Fault::damaged("job", id, damage))?;
            if let Some(key) = job.key.filter(|_| id.raw() > keys_from) {
                self.keys.insert(self.hasher.hash(job.queue_no, key), id.raw())?;
                // What is read here is durable, so a long tail (an index that was lost) is sealed on the way.
                self.keys.maybe_seal(id.raw())?;
            }
            if id > self.sealed_to {
                self.unsealed += 1;
                if job.plain && !ended.contains(&id) {
                    let queue = self.queues.get_mut(job.queue_no);
                    queue.ok_or_else(|| Fault::Broken(format!("job {id} has no queue")))?.backlog.push(id);
                }
            }
        }
        self.keys.advance(self.last_id.raw());
        Ok(())
    }

    fn ended_after(&self, from: JobId) -> Result<HashSet<JobId>, Fault> {
        let first = JobId::from_raw(from.raw() + 1).unwrap_or(from);
        let last = JobId::from_raw(i64::MAX.cast_unsigned()).unwrap_or(from);
        let mut ended = HashSet::new();
        for table in ["live", "done", "dead"] {
            ended.extend(self.db.ids_between(table, first, last)?);
        }
        Ok(ended)
    }
}

/// Raises the epoch, durably.
fn new_epoch(db: &mut Db<'_>) -> Result<Tokens, Fault> {
    let epoch =
        u32::try_from(db.meta(meta::EPOCH)? + 1).map_err(|_| Fault::Broken("no epochs are left".into()))?;
    db.put_meta(meta::EPOCH, u64::from(epoch))?;
    Ok(Tokens::of_epoch(epoch))
}

/// The largest id that was ever handed out, as far as anybody was told.
fn last_id(db: &Db<'_>) -> Result<JobId, Fault> {
    let newest: Option<i64> = db.conn.query_row("SELECT max(id) FROM job", [], |row| row.get(0))?;
    let newest = newest.map(job_id).transpose()?.unwrap_or(JobId::ZERO);
    Ok(newest.max(id_from_meta(db, meta::LAST_ID)?))
}

fn id_from_meta(db: &Db<'_>, name: &str) -> Result<JobId, Fault> {
    JobId::from_raw(db.meta(name)?).ok_or_else(|| Fault::Broken(format!("{name} is not an id")))
}

pub(crate) fn key_hasher(db: &Db<'_>, options: &Options) -> Result<KeyHasher, Fault> {
    let secret: Vec<u8> =
        db.conn.query_row("SELECT value FROM secret WHERE name = 'key_hash'", [], |row| row.get(0))?;
    let secret =
        secret.try_into().map_err(|_| Fault::Broken("the secret of the key hash is damaged".into()))?;
    Ok(options
        .key_hash_bits
        .map_or_else(|| KeyHasher::new(secret), |bits| KeyHasher::with_bits(secret, bits)))
}

fn load_queues(db: &Db<'_>, chunk_ids: usize) -> Result<Queues, Fault> {
    let mut queues = Queues::default();
    let mut rows = db
        .conn
        .prepare("SELECT q.id, q.rec, c.rec FROM queue q LEFT JOIN counter c ON c.id = q.id ORDER BY q.id")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let no: u32 = row.get(0)?;
        let record: QueueRow =
            open_json(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, u64::from(no))
                .map_err(|damage| Fault::damaged("queue", no, damage))?;
        let mut counts: Counts = match row.get_ref(2)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
            Some(rec) => {
                open_json(rec, u64::from(no)).map_err(|damage| Fault::damaged("counter", no, damage))?
            }
            None => return Err(Fault::Broken(format!("queue number {no} has no counts"))),
        };
        counts.gate.restarted();
        let rules = Rules::new(record.config.clone()).map_err(|e| {
            Fault::Broken(format!("the configuration of queue {} is not valid: {e}", record.name))
        })?;
        queues.insert(Queue::new(no, record, rules, counts, chunk_ids));
    }
    Ok(queues)
}

/// Opens the key index and rebuilds what of it is missing. Returns the id above which its rows must be read again.
fn open_keys(
    db: &Db<'_>,
    dir: &Path,
    hasher: &KeyHasher,
    options: &Options,
    last_id: JobId,
) -> Result<(KeyIndex, u64), Fault> {
    let dir = dir.join(KEYS_DIR);
    let mut index_options = crate::keys::Options::new(hasher);
    index_options.run_keys = options.run_keys;
    index_options.lose_one_in = (options.sabotage == Some(crate::Sabotage::LoseIndexEntry)).then_some(97);
    let floor = db.meta(meta::FLOOR)?;
    let (mut keys, mut recovery) = KeyIndex::open(&dir, index_options.clone(), floor)?;
    if recovery.sealed_to > last_id.raw() {
        // Somebody put an older database into the directory. The index may have forgotten what that one still has.
        tracing::warn!("the key index is newer than the jobs: it is thrown away and made anew");
        drop(keys);
        KeyIndex::wipe(&dir)?;
        (keys, recovery) = KeyIndex::open(&dir, index_options, floor)?;
    }
    for damage in &recovery.damaged {
        tracing::warn!(path = %damage.path.display(), what = %damage.what, "a damaged run of the key index is rebuilt from the jobs");
    }
    for gap in &recovery.missing {
        rebuild(db, &mut keys, *gap, hasher)?;
    }
    keys.flush()?;
    Ok((keys, recovery.sealed_to))
}

/// Fills a gap of the key index from the job rows, a bounded piece at a time.
pub(crate) fn rebuild(
    db: &Db<'_>,
    keys: &mut KeyIndex,
    gap: IdRange,
    hasher: &KeyHasher,
) -> Result<(), Fault> {
    let mut lo = gap.lo;
    while lo < gap.hi {
        let (entries, full_to) = keyed_rows(db, lo, gap.hi, hasher)?;
        let hi = full_to.unwrap_or(gap.hi);
        keys.rebuild_run(IdRange::new(lo, hi), &entries)?;
        lo = hi;
    }
    Ok(())
}

/// Entries of the keyed rows in `(lo, hi]`, at most [`REBUILD_ENTRIES`]; then also the id up to which they are complete.
fn keyed_rows(db: &Db<'_>, lo: u64, hi: u64, hasher: &KeyHasher) -> Result<(Vec<Entry>, Option<u64>), Fault> {
    let mut rows =
        db.conn.prepare_cached("SELECT id, rec FROM job WHERE id > ?1 AND id <= ?2 ORDER BY id")?;
    let mut rows = rows.query([sql(lo), sql(hi)])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let id = job_id(row.get(0)?)?;
        let job = decode_job(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, id)
            .map_err(|damage| Fault::damaged("job", id, damage))?;
        if let Some(key) = job.key {
            entries.push(Entry { hash: hasher.hash(job.queue_no, key), id: id.raw() });
        }
        if entries.len() == REBUILD_ENTRIES {
            return Ok((entries, Some(id.raw())));
        }
    }
    Ok((entries, None))
}
