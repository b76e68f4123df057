//! Pages of jobs: what was published and what has become of it, from their tables, side by side.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use semel_core::ids::JobId;
use semel_core::job::{Job, JobSpec, Progress};
use semel_core::name::Group;
use semel_store::working::{QueueId, Stored};

use super::Export;
use crate::db::{job_id, sql, sql_id};
use crate::fault::Fault;
use crate::record::{Damage, Trace, decode_job, decode_progress, decode_trace};

/// The largest id there can be.
const MAX_ID: JobId = JobId::from_raw(i64::MAX.cast_unsigned()).expect("it fits 63 bits");

/// Rows of a table, from the first one above an id, and the id up to which they are all of them.
struct Slice<T> {
    rows: Vec<(JobId, T)>,
    to: JobId,
}

/// What has become of the jobs of a page.
struct Fates {
    progress: HashMap<JobId, Progress>,
    traces: HashMap<JobId, Trace>,
    /// The id up to which it is known.
    to: JobId,
}

impl Export {
    /// The next jobs above an id. Each table adds at most `most_bytes` and one row, so the page ends where the first of
    /// them had enough.
    pub(super) fn page(&self, after: JobId, most: usize, most_bytes: usize) -> Result<Vec<Stored>, Fault> {
        let jobs = self.slice("job", after, MAX_ID, (most, most_bytes), |rec, id| self.spec(rec, id))?;
        let to = jobs.rows.last().map_or(MAX_ID, |(id, _)| *id);
        let mut fates = self.fates(after, to, most_bytes)?;
        let mut page = Vec::with_capacity(jobs.rows.len());
        for (id, (no, spec)) in jobs.rows {
            if id <= fates.to {
                page.push(self.stored(id, no, spec, &mut fates)?);
            }
        }
        match fates.progress.keys().min() {
            Some(id) => Err(Fault::Broken(format!("{id} has got somewhere but was never published"))),
            None => Ok(page),
        }
    }

    /// Rows of a table in `(after, to]` in the order of their ids, until there are enough of them.
    fn slice<T>(
        &self,
        table: &'static str,
        after: JobId,
        to: JobId,
        (most, most_bytes): (usize, usize),
        decode: impl Fn(&[u8], JobId) -> Result<T, Damage>,
    ) -> Result<Slice<T>, Fault> {
        let select = format!("SELECT id, rec FROM {table} WHERE id > ?1 AND id <= ?2 ORDER BY id");
        let mut statement = self.conn.prepare_cached(&select)?;
        let mut found = statement.query([sql_id(after), sql_id(to)])?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let id = job_id(row.get(0)?)?;
            let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            rows.push((id, decode(rec, id).map_err(|damage| Fault::damaged(table, id, damage))?));
            bytes += rec.len();
            if rows.len() >= most || bytes >= most_bytes {
                return Ok(Slice { rows, to: id });
            }
        }
        Ok(Slice { rows, to })
    }

    fn spec(&self, rec: &[u8], id: JobId) -> Result<(u32, JobSpec), Damage> {
        let row = decode_job(rec, id)?;
        let no = row.queue_no;
        let name = self.names.get(&no).ok_or(Damage::Field("queue number"))?;
        Ok((no, row.into_spec(name.clone())?))
    }

    fn fates(&self, after: JobId, mut to: JobId, most_bytes: usize) -> Result<Fates, Fault> {
        let mut progress = HashMap::new();
        for table in ["live", "done", "dead"] {
            let slice = self.slice(table, after, to, (usize::MAX, most_bytes), decode_progress)?;
            to = slice.to;
            for (id, row) in slice.rows {
                if progress.insert(id, row).is_some() {
                    return Err(Fault::Broken(format!("{id} is in {table} and in another table")));
                }
            }
        }
        let traces = self.slice("trace", after, to, (usize::MAX, most_bytes), decode_trace)?;
        to = traces.to;
        progress.retain(|id, _| *id <= to);
        Ok(Fates { progress, traces: traces.rows.into_iter().collect(), to })
    }

    fn stored(&self, id: JobId, no: u32, spec: JobSpec, fates: &mut Fates) -> Result<Stored, Fault> {
        let progress = fates.progress.remove(&id).unwrap_or_else(|| Progress::fresh(spec.run_at));
        let trace = fates.traces.remove(&id).unwrap_or_default();
        let job = Job { id, spec: Arc::new(spec), progress, duplicates: trace.count };
        let queue = QueueId(no.into());
        let mut stored = Stored { job, queue, lease: None, open: true, suppressed: trace.last.into() };
        if let Some(group) = stored.line() {
            stored.open = !self.waits(no, group, &stored)?;
        }
        Ok(stored)
    }

    /// Whether a job waits in its group's line. The line is in the order of joining, so a job is looked for at its place.
    /// One that is open may have been deferred since and lost sight of its place; then the whole line is looked through.
    fn waits(&self, no: u32, group: &Group, stored: &Stored) -> Result<bool, Fault> {
        let (joined, id) = stored.place();
        let at_place = self
            .conn
            .prepare_cached(
                "SELECT waiting FROM grouped
                 WHERE queue = ?1 AND grp = ?2 AND waiting IN (0, 1) AND turn = ?3 AND id = ?4",
            )?
            .query_row(params![no, group.as_str(), sql(joined.millis()), sql_id(id)], |row| row.get(0))
            .optional()?;
        let waiting: Option<bool> = match at_place {
            None => self
                .conn
                .prepare_cached("SELECT waiting FROM grouped WHERE queue = ?1 AND grp = ?2 AND id = ?3")?
                .query_row(params![no, group.as_str(), sql_id(id)], |row| row.get(0))
                .optional()?,
            found => found,
        };
        waiting.ok_or_else(|| Fault::Broken(format!("{id} is in no line, though its group gates it")))
    }
}
