//! Pages of jobs, newest first: the ids that match, then these jobs.

use semel_core::job::Job;
use semel_store::{Cursor, JobQuery, Page};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::job::Whole;
use super::list::Plan;
use crate::fault::Fault;
use crate::row::{Cells, job_id, metadata};
use crate::session::Param;

/// A listing under way.
pub(crate) struct Listing {
    query: JobQuery,
    plan: Plan,
}

/// What the first statement found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The jobs of the page, newest first.
    pub(crate) ids: Vec<i64>,
    /// Where the next page starts.
    next: Option<Cursor>,
}

impl Listing {
    /// The listing that a valid query asks for.
    pub(crate) fn new(query: JobQuery) -> Self {
        let plan = Plan::of(&query);
        Self { query, plan }
    }

    /// The statement that finds the ids.
    pub(crate) fn text(&self) -> &str {
        &self.plan.text
    }

    /// What goes into it.
    pub(crate) fn params(&self) -> Vec<(Param<'_>, Type)> {
        self.plan.params()
    }

    /// Reads its one row.
    pub(crate) fn found(&self, row: &Row) -> Result<Found, Fault> {
        let mut cells = Cells::of(row);
        let looked: i64 = cells.take()?;
        let lowest: Option<i64> = cells.take()?;
        let ids: Option<Vec<i64>> = cells.take()?;
        let metadata: Option<Vec<Option<String>>> = cells.take()?;
        let mut ids = ids.unwrap_or_default();
        if !self.query.metadata.is_empty() {
            ids = self.with_metadata(ids, metadata.unwrap_or_default())?;
        }
        let limit = usize::try_from(self.query.limit).unwrap_or(usize::MAX);
        let full = looked >= i64::from(self.plan.look);
        // The page is full, or all that was looked at is on it and there may be more to look at.
        let last = if ids.len() > limit { ids.get(limit - 1).copied() } else { lowest.filter(|_| full) };
        ids.truncate(limit);
        Ok(Found { ids, next: last.map(job_id).transpose()?.map(|below| Cursor { below }) })
    }

    /// Keeps the ids whose metadata has every entry that is wanted.
    fn with_metadata(&self, ids: Vec<i64>, texts: Vec<Option<String>>) -> Result<Vec<i64>, Fault> {
        let mut kept = Vec::new();
        for (id, text) in ids.into_iter().zip(texts) {
            let entries = metadata::read(text.as_deref())
                .map_err(|_| Fault::damaged("job", id, "its metadata cannot be read"))?;
            if self.query.metadata.iter().all(|wanted| entries.contains(wanted)) {
                kept.push(id);
            }
        }
        Ok(kept)
    }

    /// The page, from the whole jobs. One that has changed since its id was found, and matches no more, is left out.
    pub(crate) fn page(&self, found: &Found, rows: &[Row]) -> Result<Page<Job>, Fault> {
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            let whole = Whole::read(&mut Cells::of(row))?;
            let orphan = whole.orphan;
            let job = whole.into_job();
            if self.matches(&job, orphan) {
                items.push(job);
            }
        }
        Ok(Page { items, next: found.next })
    }

    /// Whether a job passes the filters. A queue's name means the queue that has it now, not one that had it before.
    fn matches(&self, job: &Job, orphan: bool) -> bool {
        !(orphan && self.query.queue.is_some())
            && self.query.state.is_none_or(|state| state == job.progress.state)
            && self.query.matches_spec(&job.spec)
            && self.query.matches_duplicates(job)
    }
}
