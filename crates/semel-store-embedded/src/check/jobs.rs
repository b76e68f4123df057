//! The walk over all jobs: each with its progress, side by side in id order.

use std::collections::BTreeMap;

use rusqlite::{Connection, Rows};
use semel_core::ids::JobId;
use semel_core::lifecycle::State;

use super::findings::Findings;
use crate::db::{job_id, sql};
use crate::fault::Fault;
use crate::keys::{Entry, KeyHasher, KeyIndex, Verified};
use crate::maintenance::{Progress, REPORT_EVERY, Watcher};
use crate::queues::Counts;
use crate::record::{decode_job, decode_progress};

/// What the jobs themselves say about one queue, and what its row says.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stored: Counts,
    counted: Counts,
    /// Plain pending jobs that a chunk must list.
    pub(super) in_chunks: u64,
    /// Plain pending jobs that the next open finds by itself.
    in_tail: u64,
    /// Unfinished jobs that are neither.
    pub(super) elsewhere: u64,
}

/// What a check has learned from the jobs.
pub(super) struct Truth {
    pub(super) queues: BTreeMap<u32, Tally>,
    pub(super) sealed_to: JobId,
    pub(super) jobs: u64,
}

impl Truth {
    pub(super) fn new(stored: BTreeMap<u32, Counts>, sealed_to: JobId) -> Self {
        let tally = |(no, stored)| (no, Tally { stored, ..Tally::default() });
        Self { queues: stored.into_iter().map(tally).collect(), sealed_to, jobs: 0 }
    }

    pub(super) fn unfinished(&self) -> u64 {
        self.queues.values().map(|tally| tally.counted.unfinished).sum()
    }

    fn count(&mut self, id: JobId, no: u32, plain: bool, stored: Option<State>, found: &mut Findings) {
        let sealed = id <= self.sealed_to;
        let Some(tally) = self.queues.get_mut(&no) else {
            return found.add(format!("job {id}: its queue number {no} does not exist"));
        };
        let state = stored.unwrap_or(State::Pending);
        *tally.counted.of(state) += 1;
        if state.is_finished() {
            return;
        }
        match (plain && stored.is_none(), sealed) {
            (true, true) => tally.in_chunks += 1,
            (true, false) => tally.in_tail += 1,
            (false, _) => tally.elsewhere += 1,
        }
    }

    /// Compares the counts on disk with what was counted.
    pub(super) fn compare_counts(&self, found: &mut Findings) {
        for (no, Tally { stored, counted, .. }) in &self.queues {
            let pairs = [
                ("unfinished", stored.unfinished, counted.unfinished),
                ("completed", stored.completed, counted.completed),
                ("dead", stored.dead, counted.dead),
                ("cancelled", stored.cancelled, counted.cancelled),
            ];
            for (what, says, is) in pairs {
                found.require(says == is, || {
                    format!("queue number {no}: its row says {says} {what} jobs, there are {is}")
                });
            }
        }
    }
}

/// One table of progress, read in step with the jobs.
struct Side<'s> {
    name: &'static str,
    rows: Rows<'s>,
    next: Option<(JobId, Vec<u8>)>,
}

impl Side<'_> {
    fn advance(&mut self) -> Result<(), Fault> {
        self.next = match self.rows.next()? {
            Some(row) => Some((job_id(row.get(0)?)?, row.get(1)?)),
            None => None,
        };
        Ok(())
    }

    /// The record of `id`, if there is one; rows passed on the way belong to no job.
    fn take(&mut self, id: JobId, found: &mut Findings) -> Result<Option<Vec<u8>>, Fault> {
        while let Some((at, rec)) = self.next.take_if(|(at, _)| *at <= id) {
            self.advance()?;
            if at == id {
                return Ok(Some(rec));
            }
            found.add(format!("{} row {at}: there is no such job", self.name));
        }
        Ok(None)
    }
}

/// Offers the rows above the last run to the index, as an open does.
pub(super) fn insert_tail(
    conn: &Connection,
    index: &mut KeyIndex,
    sealed_to: u64,
    hasher: &KeyHasher,
    found: &mut Findings,
) -> Result<(), Fault> {
    let mut rows = conn.prepare("SELECT id, rec FROM job WHERE id > ?1 ORDER BY id")?;
    let mut rows = rows.query([sql(sealed_to)])?;
    while let Some(row) = rows.next()? {
        let id = job_id(row.get(0)?)?;
        let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        match decode_job(rec, id) {
            Ok(job) => {
                if let Some(key) = job.key {
                    index.insert(hasher.hash(job.queue_no, key), id.raw())?;
                    index.maybe_seal(id.raw())?;
                }
            }
            Err(damage) => found.add(format!("job {id}: the store cannot be opened: {damage}")),
        }
    }
    Ok(())
}

/// Reads every job and its progress, and asks the index for every key.
pub(super) fn walk(
    conn: &Connection,
    index: &KeyIndex,
    hasher: &KeyHasher,
    truth: &mut Truth,
    found: &mut Findings,
    total: u64,
    watch: Watcher<'_>,
) -> Result<Verified, Fault> {
    let mut verifier = index.verifier();
    let sql_of = |table: &str| format!("SELECT id, rec FROM {table} ORDER BY id");
    let mut live = conn.prepare(&sql_of("live"))?;
    let mut done = conn.prepare(&sql_of("done"))?;
    let mut dead = conn.prepare(&sql_of("dead"))?;
    let mut sides = [
        Side { name: "live", rows: live.query([])?, next: None },
        Side { name: "done", rows: done.query([])?, next: None },
        Side { name: "dead", rows: dead.query([])?, next: None },
    ];
    sides.iter_mut().try_for_each(Side::advance)?;
    let mut jobs = conn.prepare(&sql_of("job"))?;
    let mut rows = jobs.query([])?;
    while let Some(row) = rows.next()? {
        let id = job_id(row.get(0)?)?;
        let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let state = state_of(id, &mut sides, found)?;
        match decode_job(rec, id) {
            Ok(job) => {
                if let Some(key) = job.key {
                    verifier.push(Entry { hash: hasher.hash(job.queue_no, key), id: id.raw() })?;
                }
                truth.count(id, job.queue_no, job.plain, state, found);
            }
            Err(damage) => found.add(format!("job {id}: {damage}")),
        }
        truth.jobs += 1;
        if truth.jobs.is_multiple_of(REPORT_EVERY) {
            watch(Progress { step: "checking jobs", done: truth.jobs, total: total.max(truth.jobs) });
        }
    }
    let last = JobId::from_raw(i64::MAX.cast_unsigned()).unwrap_or(JobId::ZERO);
    for side in &mut sides {
        side.take(last, found)?;
    }
    watch(Progress { step: "checking jobs", done: truth.jobs, total: truth.jobs });
    let verified = verifier.finish()?;
    found.require(verified.is_complete(), || {
        format!(
            "key index: {} of {} keys are missing, such as that of job {}; run `semel store rebuild-index`",
            verified.missing,
            verified.checked,
            verified.examples.first().and_then(|e| JobId::from_raw(e.id)).unwrap_or(JobId::ZERO)
        )
    });
    Ok(verified)
}

/// The state that the tables of progress give a job; `None` if it is as fresh as it was published.
fn state_of(id: JobId, sides: &mut [Side<'_>; 3], found: &mut Findings) -> Result<Option<State>, Fault> {
    let mut state = None;
    for side in sides {
        let Some(rec) = side.take(id, found)? else { continue };
        found.require(state.is_none(), || format!("job {id} is in {} and in another table", side.name));
        match decode_progress(&rec, id) {
            Ok(progress) => {
                let fits = match side.name {
                    "live" => progress.state == State::Pending,
                    "dead" => progress.state == State::Dead,
                    _ => matches!(progress.state, State::Completed | State::Cancelled),
                };
                found
                    .require(fits, || format!("job {id} is {:?} but filed in {}", progress.state, side.name));
                state = Some(progress.state);
            }
            Err(damage) => found.add(format!("{} row {id}: {damage}", side.name)),
        }
    }
    Ok(state)
}
