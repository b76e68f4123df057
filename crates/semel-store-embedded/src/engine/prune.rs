//! Pruning: finished jobs whose retention is over go, a slice at a time, wherever the last slice stopped.
//!
//! A slice looks at finished jobs in id order. What it learns is kept: a stretch of ids in which nothing can change
//! before some time is not looked at again until then, so a store full of young jobs costs nothing to keep tidy.

use std::collections::BTreeMap;

use semel_core::ids::JobId;
use semel_core::job::Progress;
use semel_core::lifecycle::State;
use semel_core::retention::{self, Fate};
use semel_core::time::{Millis, Timestamp};
use semel_store::Reply;

use super::{Engine, Table};
use crate::db::{job_id, sql_id};
use crate::fault::{Fault, No};
use crate::record::{self, decode_job, decode_progress};
use crate::schema::meta;

/// Rows that one remembered stretch may cover: a change in it makes all of them be looked at again.
const STRETCH_ROWS: u32 = 4096;

/// Ids in `(lo, hi]` of one table in which nothing can change before `until`.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    hi: JobId,
    until: Timestamp,
    rows: u32,
}

/// How far the sweep over one table has come, and what it has learned.
#[derive(Debug, Default)]
struct Half {
    /// Rows up to here have been looked at in this pass.
    place: Option<JobId>,
    quiet: BTreeMap<JobId, Stretch>,
    at_end: bool,
}

impl Half {
    fn place(&self) -> JobId {
        self.place.unwrap_or(JobId::ZERO)
    }

    /// Moves over stretches that are quiet, forgets one that no longer is, and says how far to look from here.
    fn next_range(&mut self, now: Timestamp) -> (JobId, JobId) {
        while let Some(stretch) = self.quiet.get(&self.place()).copied() {
            if stretch.until <= now {
                self.quiet.remove(&self.place());
                break;
            }
            self.place = Some(stretch.hi);
        }
        let from = self.place();
        let to = self.quiet.range(from..).next().map_or(MAX_ID, |(&lo, _)| lo);
        (from, to)
    }

    /// Remembers that nothing in `(place, hi]` can change before `until`, and goes on from there.
    fn learn(&mut self, hi: JobId, until: Option<Timestamp>, rows: u32) {
        let lo = self.place();
        self.place = Some(hi);
        let Some(until) = until else { return };
        let before = self.quiet.range_mut(..lo).next_back().map(|(_, stretch)| stretch);
        match before.filter(|s| s.hi == lo && s.rows + rows <= STRETCH_ROWS) {
            Some(stretch) => {
                *stretch = Stretch { hi, until: stretch.until.min(until), rows: stretch.rows + rows }
            }
            None => _ = self.quiet.insert(lo, Stretch { hi, until, rows }),
        }
    }

    /// Something about this id has changed: what was learned about its surroundings no longer holds.
    fn disturb(&mut self, id: JobId) {
        let around = self.quiet.range(..id).next_back().filter(|(_, s)| s.hi >= id).map(|(&lo, _)| lo);
        if let Some(lo) = around {
            self.quiet.remove(&lo);
        }
    }
}

/// The largest id there can be.
const MAX_ID: JobId = JobId::from_raw(i64::MAX.cast_unsigned()).expect("it fits 63 bits");

/// The sweep over all finished jobs.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    done: Half,
    dead: Half,
    /// All rows up to here are gone once the transaction is durable: the key index may forget them.
    pub(super) retire_to: Option<JobId>,
    /// A pass over everything has just ended.
    pub(super) pass_ended: bool,
}

impl Sweep {
    /// A job has ended or changed since the sweep passed it.
    pub(super) fn finished(&mut self, id: JobId) {
        self.done.disturb(id);
        self.dead.disturb(id);
    }

    /// A setting has changed: nothing learned holds any more.
    pub(super) fn start_over(&mut self) {
        self.done.quiet.clear();
        self.dead.quiet.clear();
    }

    fn half(&mut self, table: Table) -> &mut Half {
        if table == Table::Dead { &mut self.dead } else { &mut self.done }
    }
}

/// Ids in `(from, to]` to look at.
struct Range {
    from: JobId,
    to: JobId,
    /// Whether nothing comes after it.
    last: bool,
}

/// What a slice has done so far.
#[derive(Default)]
struct Tally {
    looked: u32,
    dropped: u32,
    stripped: u32,
}

impl Engine<'_> {
    pub(super) fn prune(&mut self, limit: u32) -> Result<Reply, No> {
        let mut tally = Tally::default();
        for table in [Table::Done, Table::Dead] {
            while tally.looked < limit && !self.sweep.half(table).at_end {
                self.look(table, limit, &mut tally)?;
            }
        }
        if tally.dropped > 0 {
            // The newest rows may be among those that are gone, and their ids must not come back.
            self.put_meta_last_id()?;
        }
        let more = !(self.sweep.done.at_end && self.sweep.dead.at_end);
        if !more {
            self.end_pass()?;
        }
        Ok(Reply::Pruned { dropped: tally.dropped, stripped: tally.stripped, more })
    }

    /// Looks at the next rows of a table.
    fn look(&mut self, table: Table, limit: u32, tally: &mut Tally) -> Result<(), Fault> {
        let stretch = self.next_stretch(table);
        let wanted = limit - tally.looked;
        let rows = self.finished_rows(table, stretch.from, stretch.to, wanted)?;
        let full = rows.len() == wanted as usize;
        let hi = if full { rows.last().map_or(stretch.to, |(id, _)| *id) } else { stretch.to };
        let mut until: Option<Timestamp> = None;
        let mut drops = Vec::new();
        let seen = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        for (id, rec) in rows {
            let next = self.consider(table, id, &rec, tally, &mut drops)?;
            until = until.into_iter().chain(next).min();
        }
        self.drop_rows(table, &drops)?;
        tally.looked += seen;
        tally.dropped += u32::try_from(drops.len()).unwrap_or(u32::MAX);
        let half = self.sweep.half(table);
        half.at_end = stretch.last && !full;
        half.learn(hi, until.filter(|_| !stretch.last), seen);
        Ok(())
    }

    /// Where to look next. A job cannot have been finished before it was published, so jobs younger than the shortest
    /// retention are passed over. Ids tell the time of publishing, but not those that run ahead of the clock (as after
    /// somebody set it back): such are looked at last, and always.
    fn next_stretch(&mut self, table: Table) -> Range {
        let now = self.now.millis();
        let old_enough = now.saturating_sub(self.shortest_retention().millis()).saturating_add(1);
        let young = JobId::first_at(Timestamp::from_millis(old_enough));
        let ahead = JobId::first_at(Timestamp::from_millis(now.saturating_add(1)));
        let (from, to) = self.sweep.half(table).next_range(self.now);
        if from < young {
            return Range { from, to: to.min(young), last: false };
        }
        let half = self.sweep.half(table);
        half.place = Some(from.max(ahead));
        Range { from: half.place(), to: MAX_ID, last: true }
    }

    /// No finished job can be touched sooner after its publish than this.
    fn shortest_retention(&self) -> Millis {
        let of = |q: &crate::queues::Queue| {
            let retention = &q.rules.config.retention;
            if q.deleted { Millis::ZERO } else { retention.completed.min(retention.dead) }
        };
        self.queues.iter().map(of).min().unwrap_or(Millis::ZERO)
    }

    fn finished_rows(
        &mut self,
        table: Table,
        from: JobId,
        to: JobId,
        limit: u32,
    ) -> Result<Vec<(JobId, Vec<u8>)>, Fault> {
        let sql =
            format!("SELECT id, rec FROM {} WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3", table.name());
        let mut stmt = self.db.conn.prepare_cached(&sql)?;
        let rows =
            stmt.query_map((sql_id(from), sql_id(to), limit), |row| Ok((job_id(row.get(0)?)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Decides about one finished job, does it (a drop is only noted), and says when to look again.
    fn consider(
        &mut self,
        table: Table,
        id: JobId,
        rec: &[u8],
        tally: &mut Tally,
        drops: &mut Vec<JobId>,
    ) -> Result<Option<Timestamp>, Fault> {
        let progress = match decode_progress(rec, id) {
            Ok(progress) => progress,
            Err(damage) => return Ok(keep_damaged(&Fault::damaged(table.name(), id, damage))),
        };
        let Some(finished_at) = progress.finished_at else {
            return Ok(keep_damaged(&Fault::Broken(format!("job {id} is filed as ended but is not"))));
        };
        match self.fate_of(id, &progress, finished_at) {
            Ok((_, Fate::Keep { until })) => Ok(Some(until)),
            Ok((no, Fate::Strip { next })) => {
                self.strip(table, id, no, &progress)?;
                tally.stripped += 1;
                Ok(Some(next))
            }
            Ok((no, Fate::Drop)) => {
                self.forget(id, no, progress.state)?;
                drops.push(id);
                Ok(None)
            }
            Err(fault @ (Fault::Damaged { .. } | Fault::Broken(_))) => Ok(keep_damaged(&fault)),
            Err(fault) => Err(fault),
        }
    }

    /// Takes a dead letter away now, or leaves what its key needs.
    pub(super) fn purge(&mut self, id: JobId) -> Result<Reply, No> {
        let loaded = self.need_job(id)?;
        let (no, job) = (loaded.queue, &loaded.job);
        let queue = self.queue(no)?;
        let holds = !queue.deleted && job.progress.released.is_none();
        let key_until = job.key_expires_at(&queue.rules.config).filter(|_| holds);
        match retention::purge(job, key_until, self.now)? {
            Fate::Keep { .. } => {}
            Fate::Strip { .. } => self.strip(Table::Dead, id, no, &job.progress)?,
            Fate::Drop => {
                self.forget(id, no, job.progress.state)?;
                self.drop_rows(Table::Dead, &[id])?;
                // It may have been the newest row, and its id must not come back.
                self.put_meta_last_id()?;
            }
        }
        // The sweep may have learned to wait longer than the key does.
        self.sweep.finished(id);
        Ok(Reply::Done)
    }

    /// Takes a finished job that is about to be dropped out of the counts and of what is in memory.
    fn forget(&mut self, id: JobId, no: u32, state: State) -> Result<(), Fault> {
        *self.queue_mut(no)?.counts.of(state) -= 1;
        self.forget_pending_trace(id);
        self.tidy.dropped(id);
        Ok(())
    }

    fn fate_of(
        &mut self,
        id: JobId,
        progress: &Progress,
        finished_at: Timestamp,
    ) -> Result<(u32, Fate), Fault> {
        let head = self.db.job.get(id, |rec| -> Result<_, record::Damage> {
            let row = decode_job(rec, id)?;
            let (no, keyed) = (row.queue_no, row.key.is_some());
            Ok((no, keyed, row.window()?, record::is_stripped(rec)))
        })?;
        let head = head.ok_or_else(|| Fault::Broken(format!("job {id} has ended but has no row")))?;
        let (no, keyed, window, stripped) = head.map_err(|damage| Fault::damaged("job", id, damage))?;
        let queue = self.queue(no)?;
        if queue.deleted {
            return Ok((no, Fate::Drop));
        }
        let config = &queue.rules.config;
        let holds = keyed && progress.released.is_none();
        let key_until = holds.then(|| finished_at.plus(window.unwrap_or(config.window)));
        let dead = progress.state == State::Dead;
        Ok((no, retention::fate(finished_at, dead, &config.retention, key_until, stripped, self.now)))
    }

    fn strip(&mut self, table: Table, id: JobId, no: u32, progress: &Progress) -> Result<(), Fault> {
        let (_, spec) = self.spec(id)?.ok_or_else(|| Fault::Broken(format!("job {id} has no row")))?;
        record::encode_job(&mut self.buffer, id, no, &spec.stripped());
        self.db.job.put(id, &self.buffer)?;
        self.rewrite(table, id, &progress.stripped())
    }

    /// Deletes rows of jobs that have ended, in id order. Jobs mostly end in the order they came, so usually nothing else
    /// stands between the first and the last, and whole ranges go at once: a third of the work of going one by one.
    fn drop_rows(&mut self, table: Table, ids: &[JobId]) -> Result<(), Fault> {
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else { return Ok(()) };
        let tables = ["job", table.name(), "trace"];
        if self.db.at_most_between("job", first, last, ids.len())? {
            return Ok(tables.iter().try_for_each(|table| self.db.delete_between(table, first, last))?);
        }
        for id in ids {
            tables.iter().try_for_each(|table| self.db.delete_between(table, *id, *id))?;
        }
        Ok(())
    }

    /// A pass over everything is over: the next starts at the beginning, and the key index learns what is gone.
    fn end_pass(&mut self) -> Result<(), Fault> {
        for half in [&mut self.sweep.done, &mut self.sweep.dead] {
            half.place = None;
            half.at_end = false;
        }
        self.sweep.pass_ended = true;
        let oldest: Option<i64> = self.db.conn.query_row("SELECT min(id) FROM job", [], |row| row.get(0))?;
        let floor = match oldest.map(job_id).transpose()? {
            Some(id) => JobId::from_raw(id.raw().saturating_sub(1)).unwrap_or(JobId::ZERO),
            None => self.last_id,
        };
        if self.db.meta(meta::FLOOR)? < floor.raw() {
            self.db.put_meta(meta::FLOOR, floor.raw())?;
            self.sweep.retire_to = Some(floor);
        }
        Ok(())
    }
}

/// What cannot be read is not dropped: it waits for `semel store check` and a person.
fn keep_damaged(fault: &Fault) -> Option<Timestamp> {
    tracing::error!(%fault, "a finished job is kept because it is damaged");
    Some(Timestamp::from_millis(u64::MAX))
}
