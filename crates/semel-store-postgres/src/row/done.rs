//! `semel.done`: what has become of a finished job.

use semel_core::ids::JobId;
use semel_core::job::Progress;
use semel_core::time::Timestamp;

use super::{Cells, columns, count, progress, sql_count, sql_id, sql_state, sql_time, state, time};
use crate::fault::Fault;

/// The columns of a finished job, for a `SELECT` in which the table is `d`. [`DoneRow::read`] reads them.
macro_rules! done_columns {
    () => {
        "d.state, d.due, d.finished_at, d.attempts, d.deferrals, d.progress"
    };
}
pub(crate) use done_columns;

/// What has become of a finished job.
#[derive(Debug)]
pub(crate) struct DoneRow;

impl DoneRow {
    /// Reads the next six cells, those of `done_columns`; nothing if there is no such row.
    pub(crate) fn read(cells: &mut Cells<'_>, id: i64) -> Result<Option<Progress>, Fault> {
        let code: Option<i16> = cells.take()?;
        let (due, finished_at): (Option<i64>, Option<i64>) = (cells.take()?, cells.take()?);
        let (attempts, deferrals): (Option<i32>, Option<i32>) = (cells.take()?, cells.take()?);
        let rest: Option<&str> = cells.take()?;
        let Some(code) = code else { return Ok(None) };
        let ended = state(code).filter(|state| state.is_finished());
        let mut progress = progress::read(rest).map_err(|e| Fault::damaged("done", id, &e))?;
        progress.state = ended.ok_or_else(|| Fault::damaged("done", id, "its state is not one of an end"))?;
        progress.due = time(due.unwrap_or(0));
        progress.finished_at = finished_at.map(time);
        progress.attempts = count(attempts.unwrap_or(0));
        progress.deferrals = count(deferrals.unwrap_or(0));
        Ok(Some(progress))
    }
}

columns! {
    /// Finished jobs, to be inserted or rewritten.
    DoneColumns {
        id: i64 => INT8_ARRAY,
        queue: i32 => INT4_ARRAY,
        state: i16 => INT2_ARRAY,
        due: i64 => INT8_ARRAY,
        finished_at: i64 => INT8_ARRAY,
        attempts: i32 => INT4_ARRAY,
        deferrals: i32 => INT4_ARRAY,
        progress: Option<String> => TEXT_ARRAY,
        look_at: i64 => INT8_ARRAY,
    }
}

impl DoneColumns {
    /// Adds a job; `look_at` is the earliest time at which its retention can say something new.
    pub(crate) fn push(&mut self, id: JobId, queue: i32, progress: &Progress, look_at: Timestamp) {
        self.id.push(sql_id(id));
        self.queue.push(queue);
        self.state.push(sql_state(progress.state));
        self.due.push(sql_time(progress.due));
        self.finished_at.push(sql_time(progress.finished_at.unwrap_or_default()));
        self.attempts.push(sql_count(progress.attempts));
        self.deferrals.push(sql_count(progress.deferrals));
        self.progress.push(progress::write(progress));
        self.look_at.push(sql_time(look_at));
    }
}
