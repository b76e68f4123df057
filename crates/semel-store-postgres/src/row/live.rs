//! `semel.live`: what has become of an unfinished job, and its lease.

use semel_core::ids::JobId;
use semel_core::job::{Priority, Progress};
use semel_core::lease::Lease;
use semel_core::lifecycle::State;
use semel_core::name::Group;
use semel_core::time::Timestamp;

use super::{Cells, columns, count, progress, sql_count, sql_id, sql_time, sql_token, time, token};
use crate::fault::Fault;

/// The columns of an unfinished job, for a `SELECT` in which the table is `l`. [`LiveRow::read`] reads them.
macro_rules! live_columns {
    () => {
        "l.due, l.open, l.attempts, l.deferrals, l.progress, l.token, l.since, l.deadline, l.received, l.node"
    };
}
pub(crate) use live_columns;

/// Rows of `semel.live` to change or delete, as an item `u` of a `FROM`: given columns, the first of which is the id, and the
/// place of the row, `at`, to which the row's `ctid` is compared. `$1` has the ids.
///
/// A plan is kept, and it may be made while the table is empty, as it often is. Then reading all of it costs less than looking
/// up a few ids, so a plain join would do that, row by row, when the table is full again. Here the order is fixed: the ids, each
/// looked up (LATERAL behind OFFSET), then the place; and of a LIMIT that is not known the planner expects so little that it
/// goes to the place of each.
macro_rules! found_in_live {
    ($arrays:literal, $columns:literal) => {
        concat!(
            "(SELECT u.*, spot.at
                FROM (SELECT * FROM unnest(",
            $arrays,
            ") AS u (",
            $columns,
            ") LIMIT cardinality($1)) u
               CROSS JOIN LATERAL (SELECT ctid AS at FROM semel.live WHERE id = u.id OFFSET 0) spot) u"
        )
    };
}
pub(crate) use found_in_live;

/// An unfinished job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveRow {
    /// What has become of it. A lease is not part of it, so a leased job is pending here.
    pub(crate) progress: Progress,
    /// Whether its group lets it go out.
    pub(crate) open: bool,
    /// The delivery that is out.
    pub(crate) lease: Option<Lease>,
    /// The node that handed the lease out.
    pub(crate) node: Option<i32>,
}

impl LiveRow {
    /// Reads the next ten cells, those of `live_columns`; nothing if there is no such row.
    pub(crate) fn read(cells: &mut Cells<'_>, id: i64) -> Result<Option<Self>, Fault> {
        let due: Option<i64> = cells.take()?;
        let open: Option<bool> = cells.take()?;
        let (attempts, deferrals): (Option<i32>, Option<i32>) = (cells.take()?, cells.take()?);
        let rest: Option<&str> = cells.take()?;
        let lease = read_lease(cells)?;
        let node = cells.take()?;
        let Some(due) = due else { return Ok(None) };
        let mut progress = progress::read(rest).map_err(|e| Fault::damaged("live", id, &e))?;
        progress.state = State::Pending;
        progress.due = time(due);
        progress.attempts = count(attempts.unwrap_or(0));
        progress.deferrals = count(deferrals.unwrap_or(0));
        Ok(Some(Self { progress, open: open.unwrap_or(true), lease, node }))
    }
}

fn read_lease(cells: &mut Cells<'_>) -> Result<Option<Lease>, Fault> {
    let held: Option<i64> = cells.take()?;
    let (since, deadline): (Option<i64>, Option<i64>) = (cells.take()?, cells.take()?);
    let received: Option<bool> = cells.take()?;
    Ok(held.map(|held| Lease {
        token: token(held),
        since: time(since.unwrap_or(0)),
        deadline: time(deadline.unwrap_or(0)),
        received: received.unwrap_or(false),
    }))
}

columns! {
    /// Unfinished jobs, to be inserted or rewritten.
    LiveColumns {
        id: i64 => INT8_ARRAY,
        queue: i32 => INT4_ARRAY,
        rank: i16 => INT2_ARRAY,
        due: i64 => INT8_ARRAY,
        open: bool => BOOL_ARRAY,
        grp: Option<String> => TEXT_ARRAY,
        joined: i64 => INT8_ARRAY,
        attempts: i32 => INT4_ARRAY,
        deferrals: i32 => INT4_ARRAY,
        progress: Option<String> => TEXT_ARRAY,
        token: Option<i64> => INT8_ARRAY,
        since: Option<i64> => INT8_ARRAY,
        deadline: Option<i64> => INT8_ARRAY,
        received: bool => BOOL_ARRAY,
        node: Option<i32> => INT4_ARRAY,
    }
}

/// Where an unfinished job stands among the others of its queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    /// The queue.
    pub(crate) queue: i32,
    /// Its priority.
    pub(crate) priority: Priority,
    /// The group in whose line it stands.
    pub(crate) line: Option<&'a Group>,
    /// When it joined that line.
    pub(crate) joined: Timestamp,
}

impl LiveColumns {
    /// Adds a job.
    pub(crate) fn push(&mut self, id: JobId, standing: Standing<'_>, row: &LiveRow) {
        let lease = row.lease.as_ref();
        self.id.push(sql_id(id));
        self.queue.push(standing.queue);
        self.rank.push(-i16::from(standing.priority.get()));
        self.due.push(sql_time(row.progress.due));
        self.open.push(row.open);
        self.grp.push(standing.line.map(ToString::to_string));
        self.joined.push(sql_time(standing.joined));
        self.attempts.push(sql_count(row.progress.attempts));
        self.deferrals.push(sql_count(row.progress.deferrals));
        self.progress.push(progress::write(&row.progress));
        self.token.push(lease.map(|lease| sql_token(lease.token)));
        self.since.push(lease.map(|lease| sql_time(lease.since)));
        self.deadline.push(lease.map(|lease| sql_time(lease.deadline)));
        self.received.push(lease.is_some_and(|lease| lease.received));
        self.node.push(row.node.filter(|_| lease.is_some()));
    }
}
