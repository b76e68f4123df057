//! Listings, on a connection of their own: a reader never makes the engine wait, and each call is one short transaction,
//! so that it cannot keep the log from being checkpointed either.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use semel_core::ids::JobId;
use semel_core::job::{Job, Progress};
use semel_core::lease::Lease;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_store::{Cursor, JobQuery, Page, StoreError};

use crate::db::{job_id, sql_id};
use crate::engine::Overlay;
use crate::fault::Fault;
use crate::queues::QueueRow;
use crate::record::{decode_job, decode_progress, decode_trace, open_json};

/// Rows one call looks at: some tens of milliseconds of work, then it hands out a cursor.
const LOOK_MAX: u32 = 20_000;

/// The progress of a job that a worker has, as callers see it.
pub(crate) fn with_lease(progress: Progress, lease: &Lease) -> Progress {
    let state = if lease.received { State::AwaitingAck } else { State::Processing };
    Progress { state, ..progress }
}

/// One listing under way.
struct Listing<'a> {
    conn: &'a Connection,
    query: &'a JobQuery,
    overlay: &'a Overlay,
    queues: HashMap<u32, QueueName>,
}

/// One page of jobs, newest first.
pub(crate) fn list(
    conn: &mut Connection,
    query: &JobQuery,
    overlay: &Overlay,
) -> Result<Page<Job>, StoreError> {
    if overlay.queue == Some(None) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let read = |conn: &mut Connection| -> Result<Page<Job>, Fault> {
        let snapshot = conn.transaction()?;
        Listing { conn: &snapshot, query, overlay, queues: HashMap::new() }.page()
    };
    read(conn).map_err(|fault| fault.rolled_back())
}

impl Listing<'_> {
    fn page(&mut self) -> Result<Page<Job>, Fault> {
        let below = self.query.cursor.map_or(i64::MAX, |cursor| sql_id(cursor.below));
        let ids = self.ids_below(below)?;
        let looked_all = ids.len() < LOOK_MAX as usize;
        let mut items = Vec::new();
        let mut last = None;
        for id in ids {
            if self.query.from.is_some_and(|from| id.time() < from) {
                return Ok(Page { items, next: None });
            }
            if let Some(job) = self.load(id)? {
                if items.len() == self.query.limit as usize {
                    return Ok(Page { items, next: last.map(|below| Cursor { below }) });
                }
                items.push(job);
            }
            last = Some(id);
        }
        let next = if looked_all { None } else { last.map(|below| Cursor { below }) };
        Ok(Page { items, next })
    }

    /// Ids to look at, newest first, from wherever the jobs asked for are few.
    fn ids_below(&self, below: i64) -> Result<Vec<JobId>, Fault> {
        let in_memory = |mut ids: Vec<JobId>| {
            ids.sort_unstable_by(|a, b| b.cmp(a));
            ids.retain(|id| sql_id(*id) < below);
            ids.truncate(LOOK_MAX as usize);
            Ok(ids)
        };
        if let Some(candidates) = &self.overlay.candidates {
            return in_memory(candidates.clone());
        }
        let table = match self.query.state {
            Some(State::Processing | State::AwaitingAck) => {
                return in_memory(self.overlay.leased.keys().copied().collect());
            }
            Some(State::Completed | State::Cancelled) => "done",
            Some(State::Dead) => "dead",
            Some(State::Pending) | None => "job",
        };
        let sql = format!("SELECT id FROM {table} WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
        let mut stmt = self.conn.prepare_cached(&sql)?;
        let rows = stmt.query_map((below, LOOK_MAX), |row| job_id(row.get(0)?))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A job, if it is there and passes the filters.
    fn load(&mut self, id: JobId) -> Result<Option<Job>, Fault> {
        let Some(rec) = self.record("job", id)? else { return Ok(None) };
        let row = decode_job(&rec, id).map_err(|damage| Fault::damaged("job", id, damage))?;
        if self.overlay.queue.flatten().is_some_and(|no| no != row.queue_no) {
            return Ok(None);
        }
        let name = self.queue_name(row.queue_no)?;
        let spec = row.into_spec(name).map_err(|damage| Fault::damaged("job", id, damage))?;
        if !self.query.matches_spec(&spec) {
            return Ok(None);
        }
        let progress = match self.overlay.leased.get(&id) {
            Some(leased) => leased.clone(),
            None => self.progress(id)?.unwrap_or_else(|| Progress::fresh(spec.run_at)),
        };
        if self.query.state.is_some_and(|state| state != progress.state) {
            return Ok(None);
        }
        let pending = self.overlay.duplicates.get(&id).copied().unwrap_or(0);
        let duplicates = self.duplicates(id)?.saturating_add(pending);
        let job = Job { id, spec: Arc::new(spec), progress, duplicates };
        Ok(Some(job).filter(|job| self.query.matches_duplicates(job)))
    }

    fn record(&self, table: &'static str, id: JobId) -> Result<Option<Vec<u8>>, Fault> {
        let mut stmt = self.conn.prepare_cached(&format!("SELECT rec FROM {table} WHERE id = ?1"))?;
        Ok(stmt.query_row([sql_id(id)], |row| row.get(0)).optional()?)
    }

    fn progress(&self, id: JobId) -> Result<Option<Progress>, Fault> {
        for table in ["live", "done", "dead"] {
            if let Some(rec) = self.record(table, id)? {
                return decode_progress(&rec, id)
                    .map(Some)
                    .map_err(|damage| Fault::damaged(table, id, damage));
            }
        }
        Ok(None)
    }

    fn duplicates(&self, id: JobId) -> Result<u32, Fault> {
        match self.record("trace", id)? {
            Some(rec) => {
                Ok(decode_trace(&rec, id).map_err(|damage| Fault::damaged("trace", id, damage))?.count)
            }
            None => Ok(0),
        }
    }

    fn queue_name(&mut self, no: u32) -> Result<QueueName, Fault> {
        if let Some(name) = self.queues.get(&no) {
            return Ok(name.clone());
        }
        let rec = self.record("queue", JobId::from_raw(u64::from(no)).unwrap_or(JobId::ZERO))?.ok_or_else(
            || Fault::Broken(format!("a row refers to queue number {no}, which does not exist")),
        )?;
        let row: QueueRow =
            open_json(&rec, u64::from(no)).map_err(|damage| Fault::damaged("queue", no, damage))?;
        self.queues.insert(no, row.name.clone());
        Ok(row.name)
    }
}
