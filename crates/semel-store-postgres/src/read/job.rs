//! One job, whole: what was published, what has become of it, its lease, its duplicates.

use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::job::{Job, JobSpec, Progress};
use semel_core::lease::Lease;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::{Cells, DoneRow, JobRow, LiveRow, TraceRow, job_id};
use crate::session::Sql;

/// The columns of a whole job, for a `SELECT` from [`whole_tables`]. [`Whole::read`] reads them.
macro_rules! whole_columns {
    () => {
        concat!(
            "j.id, q.id, q.name, q.deleted, ",
            crate::row::job_columns!(),
            ", ",
            crate::row::live_columns!(),
            ", ",
            crate::row::done_columns!(),
            ", ",
            crate::row::trace_columns!()
        )
    };
}

/// The tables of a whole job.
macro_rules! whole_tables {
    () => {
        "semel.job AS j
         JOIN semel.queue AS q ON q.id = j.queue
         LEFT JOIN semel.live AS l ON l.id = j.id
         LEFT JOIN semel.done AS d ON d.id = j.id
         LEFT JOIN semel.trace AS t ON t.job = j.id"
    };
}
pub(crate) use {whole_columns, whole_tables};

/// A job by its id.
pub(crate) static BY_ID: Sql = Sql {
    text: concat!("SELECT ", whole_columns!(), " FROM ", whole_tables!(), " WHERE j.id = $1"),
    types: &[Type::INT8],
};

/// Jobs by their ids, newest first.
pub(crate) static BY_IDS: Sql = Sql {
    text: concat!(
        "SELECT ",
        whole_columns!(),
        " FROM ",
        whole_tables!(),
        " WHERE j.id = ANY ($1) ORDER BY j.id DESC"
    ),
    types: &[Type::INT8_ARRAY],
};

/// Everything that is stored of one job.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) id: JobId,
    /// The number of its queue.
    pub(crate) queue: i32,
    /// Whether that queue has been deleted.
    pub(crate) orphan: bool,
    pub(crate) spec: JobSpec,
    /// What has become of it. A lease is not part of it, so a leased job is pending here.
    pub(crate) progress: Progress,
    /// Whether its group lets it go out.
    pub(crate) open: bool,
    pub(crate) lease: Option<Lease>,
    pub(crate) trace: TraceRow,
}

impl Whole {
    /// Reads the cells of `whole_columns`.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Self, Fault> {
        let raw: i64 = cells.take()?;
        let queue: i32 = cells.take()?;
        let name: &str = cells.take()?;
        let name =
            QueueName::try_from(name).map_err(|_| Fault::damaged("queue", queue.into(), "its name"))?;
        let orphan = cells.take()?;
        let spec = JobRow::read(cells, raw, name)?;
        let live = LiveRow::read(cells, raw)?;
        let done = DoneRow::read(cells, raw)?;
        let trace = TraceRow::read(cells, raw)?;
        let (progress, open, lease) = match (live, done) {
            (Some(live), None) => (live.progress, live.open, live.lease),
            (None, Some(progress)) => (progress, true, None),
            (None, None) => return Err(Fault::damaged("job", raw, "it is neither live nor done")),
            (Some(_), Some(_)) => return Err(Fault::damaged("job", raw, "it is live and done at once")),
        };
        Ok(Self { id: job_id(raw)?, queue, orphan, spec, progress, open, lease, trace })
    }

    /// The job as callers see it.
    pub(crate) fn into_job(self) -> Job {
        let state = match &self.lease {
            None => self.progress.state,
            Some(lease) if lease.received => State::AwaitingAck,
            Some(_) => State::Processing,
        };
        let progress = Progress { state, ..self.progress };
        Job { id: self.id, spec: Arc::new(self.spec), progress, duplicates: self.trace.duplicates }
    }
}

/// The job in a row of [`BY_ID`].
pub(crate) fn read(row: &Row) -> Result<Job, Fault> {
    Whole::read(&mut Cells::of(row)).map(Whole::into_job)
}
