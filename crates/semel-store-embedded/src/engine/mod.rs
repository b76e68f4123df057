//! The engine: one thread that owns the connection, the queues, the leases and the key index.
//!
//! It takes whatever has queued up while the last commit was on its way to the disk, applies it in one transaction,
//! commits, and answers. Nothing is answered before the commit, and nothing needs a lock because nobody else writes.
//! Commands change memory as they go; if the transaction then fails, memory is thrown away and loaded from disk again,
//! which is the path that every open takes, so there is one way to recover and it is tested by every test.

mod groups;
mod lease;
mod load;
mod manage;
mod moves;
mod prune;
mod publish;
mod reads;
mod seal;
mod settle;
mod tidy;
mod traces;

use std::collections::HashSet;
use std::sync::Arc;

use semel_core::ids::{IdGenerator, JobId};
use semel_core::job::{Job, JobSpec, Progress};
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;
use semel_store::{Answer, Clock, Command, Reply, StoreError};

use crate::db::Db;
use crate::fault::{Fault, No};
use crate::keys::{KeyHasher, KeyIndex};
use crate::leases::{Leases, Stub, Tokens};
use crate::queues::{Queue, Queues};
use crate::record::{self, seal_json};
use crate::schema::meta;
use crate::space::Space;

pub(crate) use self::load::{key_hasher, rebuild};
pub(crate) use self::manage::seed;
pub(crate) use self::prune::Sweep;
pub(crate) use self::reads::Overlay;
pub(crate) use self::tidy::Tidy;
pub(crate) use self::traces::Traces;

/// Everything the engine knows. See the module's documentation for who may touch it.
pub(crate) struct Engine<'c> {
    db: Db<'c>,
    clock: Arc<dyn Clock>,
    now: Timestamp,
    ids: IdGenerator,
    last_id: JobId,
    tokens: Tokens,
    queues: Queues,
    leases: Leases,
    keys: KeyIndex,
    hasher: KeyHasher,
    traces: Traces,
    sweep: Sweep,
    tidy: Tidy,
    space: Space,
    /// The key index cannot write its runs: until it can, it takes no more keys, or memory would grow without end.
    index_stuck: bool,
    /// Plain jobs up to here are in chunks, if they are still pending.
    sealed_to: JobId,
    /// Jobs published since the last seal.
    unsealed: usize,
    segment_jobs: usize,
    chunk_ids: usize,
    /// Chunks found empty while leasing; their rows are deleted with the next seal.
    empty_chunks: Vec<JobId>,
    /// Hashes of the keys published in this batch, which the index was not asked about.
    batch_hashes: HashSet<u64>,
    /// Scratch space for records, so that a batch allocates once.
    buffer: Vec<u8>,
    sabotage: Option<crate::Sabotage>,
}

impl Engine<'_> {
    /// Moves time on. It never goes back while the store is open. Across a restart it may, if somebody set the clock back:
    /// ids then go on above those on disk, but time is what the clock says, or everything would wait for it to catch up.
    pub(crate) fn tick(&mut self) {
        self.now = self.now.max(self.clock.now());
    }

    /// Applies batches in one transaction and makes them durable. On an error nothing has happened, unless it says that
    /// the outcome is unknown; either way the engine must be loaded again.
    pub(crate) fn commit(&mut self, batches: &mut [Vec<Command>]) -> Result<Vec<Vec<Answer>>, StoreError> {
        self.tick();
        let applied = self.apply(batches).map_err(|fault| self.give_up(&fault))?;
        if let Err(e) = self.db.commit() {
            let fault = Fault::Sqlite(e);
            // A failed sync may have reached the disk all the same. Only a full disk is known to have written nothing.
            let known = !fault.is_disk_failure();
            let error = self.give_up(&fault);
            return Err(if known { error } else { StoreError::Unknown(fault.to_string()) });
        }
        self.after_commit();
        Ok(applied)
    }

    /// Does what only reads (leases do: they are in memory) in one transaction.
    pub(crate) fn reading<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Result<T, StoreError> {
        self.db.begin_read().map_err(|e| Fault::Sqlite(e).rolled_back())?;
        let done = work(self);
        self.db.commit().map_err(|e| Fault::Sqlite(e).rolled_back())?;
        Ok(done)
    }

    fn give_up(&mut self, fault: &Fault) -> StoreError {
        if let Err(e) = self.db.rollback() {
            tracing::error!(error = %e, "a failed transaction could not be rolled back");
        }
        fault.rolled_back()
    }

    fn apply(&mut self, batches: &mut [Vec<Command>]) -> Result<Vec<Vec<Answer>>, Fault> {
        self.db.begin()?;
        self.seal_if_due()?;
        let maybe = self.probe_keys(batches);
        let mut at = 0;
        let mut answers = Vec::with_capacity(batches.len());
        for batch in batches {
            let mut replies = Vec::with_capacity(batch.len());
            for command in batch.drain(..) {
                let known_new = maybe.get(at) == Some(&false);
                at += 1;
                replies.push(self.execute(command, known_new)?);
            }
            answers.push(replies);
        }
        self.write_traces()?;
        self.write_counts()?;
        Ok(answers)
    }

    fn execute(&mut self, command: Command, known_new: bool) -> Result<Answer, Fault> {
        let done = match command {
            Command::Publish(publish) => self.publish(publish, known_new).map(Reply::Published),
            Command::Settle(settle) => self.settle(&settle),
            Command::Extend(extend) => self.extend(&extend),
            Command::Cancel(id) => self.cancel(id),
            Command::Bury { id, reason } => self.bury(id, &reason),
            Command::Replay(id) => self.replay(id),
            Command::Purge(id) => self.purge(id),
            Command::ReleaseKey { queue, key, reason } => self.release_key(&queue, &key, reason),
            Command::PutQueue { name, config } => self.put_queue(name, *config),
            Command::DeleteQueue(name) => self.delete_queue(&name),
            Command::PutSecrets { queue, secrets } => self.put_secrets(&queue, secrets),
            Command::Pause { queue, paused } => self.pause(&queue, paused),
            Command::PutSchedule(record) => self.put_schedule(&record),
            Command::DeleteSchedule(name) => self.delete_record("schedule", &name),
            Command::AdvanceSchedule { name, from, to } => self.advance_schedule(&name, from, to),
            Command::PutApiKey(record) => self.put_api_key(&record),
            Command::DeleteApiKey(id) => self.delete_record("api_key", &id),
            Command::TouchApiKey { id, at } => self.touch_api_key(&id, at),
            Command::PutReplay(record) => self.put_replay(*record),
            Command::DeleteReplay(id) => self.delete_record("replay", &id),
            Command::Rescue { limit } => self.rescue(limit),
            Command::Prune { limit } => self.prune(limit),
        };
        match done {
            Ok(reply) => Ok(Ok(reply)),
            Err(No::Refused(refusal)) => Ok(Err(refusal)),
            Err(No::Fault(fault)) => Err(fault),
        }
    }

    fn write_counts(&mut self) -> Result<(), Fault> {
        for queue in self.queues.iter_mut().filter(|q| q.dirty) {
            let no = u64::from(queue.no);
            let rec = seal_json(&queue.counts, no).map_err(|e| Fault::Broken(e.to_string()))?;
            self.db.counter.put_no(queue.no, &rec)?;
            queue.dirty = false;
        }
        Ok(())
    }

    /// What follows a commit and is not part of it: the key index may seal what is now durable.
    fn after_commit(&mut self) {
        self.batch_hashes.clear();
        self.keys.advance(self.last_id.raw());
        if let Err(e) = self.tend_index() {
            // The commit stands, so its callers must hear of it. The index is whole in memory; it is tried again.
            tracing::error!(error = %e, "the key index could not be tended: no new keys are taken until it can");
            self.index_stuck = true;
        } else {
            self.index_stuck = false;
        }
        self.space.after_commit();
    }

    /// Whether there is so little space that new jobs are refused.
    pub(crate) fn is_low_on_space(&self) -> bool {
        self.space.is_low()
    }

    /// Notes how many bytes of the log are still to be moved into the database.
    pub(crate) fn log_owes(&mut self, bytes: u64) {
        self.space.owes(bytes);
    }

    fn tend_index(&mut self) -> Result<(), Fault> {
        self.keys.maybe_seal(self.last_id.raw())?;
        if std::mem::take(&mut self.sweep.pass_ended) {
            if let Some(floor) = self.sweep.retire_to.take() {
                self.keys.retire(floor.raw())?;
            }
            self.tidy_index()?;
        }
        Ok(())
    }

    /// The tokens handed out so far, for the engine that is loaded after this one.
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    /// Leaves the directory so that the next open is quick. Everything answered is durable without it.
    pub(crate) fn shut_down(&mut self) -> Result<(), Fault> {
        self.tick();
        self.db.begin()?;
        self.seal_backlogs()?;
        self.flush_traces()?;
        self.write_counts()?;
        self.db.commit()?;
        self.keys.seal(self.last_id.raw())?;
        self.keys.flush()?;
        Ok(())
    }

    fn queue(&self, no: u32) -> Result<&Queue, Fault> {
        self.queues
            .get(no)
            .ok_or_else(|| Fault::Broken(format!("a row refers to queue number {no}, which does not exist")))
    }

    fn queue_mut(&mut self, no: u32) -> Result<&mut Queue, Fault> {
        let queue = self.queues.get_mut(no).ok_or_else(|| {
            Fault::Broken(format!("a row refers to queue number {no}, which does not exist"))
        })?;
        queue.dirty = true;
        Ok(queue)
    }

    /// What was published under an id, and the number of its queue.
    fn spec(&mut self, id: JobId) -> Result<Option<(u32, JobSpec)>, Fault> {
        let queues = &self.queues;
        let read = self.db.job.get(id, |rec| -> Result<(u32, JobSpec), record::Damage> {
            let row = record::decode_job(rec, id)?;
            let no = row.queue_no;
            let queue = queues.get(no).ok_or(record::Damage::Field("queue number"))?;
            Ok((no, row.into_spec(queue.name.clone())?))
        })?;
        read.transpose().map_err(|damage| Fault::damaged("job", id, damage))
    }

    /// What is on disk about a job besides its publish, and in which table.
    fn stored_progress(&mut self, id: JobId) -> Result<Option<(Table, Progress)>, Fault> {
        for table in [Table::Live, Table::Done, Table::Dead] {
            let rows = match table {
                Table::Live => &mut self.db.live,
                Table::Done => &mut self.db.done,
                Table::Dead => &mut self.db.dead,
            };
            if let Some(read) = rows.get(id, |rec| record::decode_progress(rec, id))? {
                let progress = read.map_err(|damage| Fault::damaged(table.name(), id, damage))?;
                return Ok(Some((table, progress)));
            }
        }
        Ok(None)
    }

    /// A job as callers see it, or `None` if there is none of that id.
    fn load_job(&mut self, id: JobId) -> Result<Option<Loaded>, Fault> {
        let Some((queue, spec)) = self.spec(id)? else { return Ok(None) };
        let (table, progress) = match self.leases.get(id) {
            Some(held) => (None, crate::reads::with_lease(held.progress.clone(), &held.lease)),
            None => match self.stored_progress(id)? {
                Some((table, progress)) => (Some(table), progress),
                None => (None, Progress::fresh(spec.run_at)),
            },
        };
        let duplicates = self.trace_of(id)?.count;
        let job = Job { id, spec: Arc::new(spec), progress, duplicates };
        Ok(Some(Loaded { queue, table, job }))
    }

    /// As [`Engine::load_job`] for a command that needs it: damage refuses the command and leaves the others alone.
    fn need_job(&mut self, id: JobId) -> Result<Loaded, No> {
        match self.load_job(id) {
            Ok(Some(loaded)) => Ok(loaded),
            Ok(None) => Err(Refusal::JobNotFound(id).into()),
            Err(fault @ Fault::Damaged { .. }) => Err(damaged(&fault)),
            Err(fault) => Err(fault.into()),
        }
    }

    fn put_meta_last_id(&mut self) -> Result<(), Fault> {
        self.db.put_meta(meta::LAST_ID, self.last_id.raw())?;
        Ok(())
    }
}

/// Damage met by one command is that command's answer; it is loud in the log as well.
fn damaged(fault: &Fault) -> No {
    tracing::error!(%fault, "a stored record is damaged");
    Refusal::Damaged(fault.to_string()).into()
}

/// Where the progress of a job is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Live,
    Done,
    Dead,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

/// A job with where it was found.
struct Loaded {
    queue: u32,
    table: Option<Table>,
    job: Job,
}

impl Loaded {
    /// What is needed to move the job, given where it waits.
    fn stub(&self, place: crate::leases::Place) -> Stub {
        Stub::new(self.job.id, self.queue, &self.job.spec, place)
    }
}
