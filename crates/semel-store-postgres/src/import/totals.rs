//! What can only be compared as a whole: that there is no row too many anywhere, and that the counts of the queues are right.

use std::collections::BTreeMap;

use semel_core::ids::JobId;
use semel_store::working::{QueueId, Tally};
use tokio_postgres::types::Type;

use super::{Census, Differences, Move};
use crate::catalog::queue_id;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::row::{Cells, sql_id};
use crate::session::Sql;

/// Rows of each table, and jobs above the last one that should be there.
static ROWS: Sql = Sql {
    text: "SELECT (SELECT count(*) FROM semel.job WHERE id > $1), (SELECT count(*) FROM semel.live),
                  (SELECT count(*) FROM semel.done), (SELECT count(*) FROM semel.trace)",
    types: &[Type::INT8],
};

/// Jobs that are listed under keys, and keys whose jobs are not listed with the newest last.
static KEYS: Sql = Sql {
    text: "SELECT coalesce(sum(cardinality(ids)), 0)::bigint,
                  count(*) FILTER (WHERE cardinality(ids) > 1 AND ids <> ARRAY(SELECT unnest(ids) ORDER BY 1))
             FROM semel.key",
    types: &[],
};

static TALLIES: Sql = Sql {
    text: "SELECT queue, sum(unfinished)::bigint, sum(completed)::bigint, sum(dead)::bigint, sum(cancelled)::bigint
             FROM semel.tally
            GROUP BY queue",
    types: &[],
};

/// The sums of a database.
#[derive(Debug, Default)]
pub(super) struct Totals {
    jobs_above: i64,
    live: i64,
    done: i64,
    traces: i64,
    listed: i64,
    disordered: i64,
    tallies: BTreeMap<QueueId, Tally>,
}

impl Move {
    /// Reads them; `last` is the newest job that should be there.
    pub(super) async fn read_totals(&self, last: JobId) -> Result<Totals, Fault> {
        let session = self.pool.session().await?;
        let last = sql_id(last);
        let mut flight = Flight::on(&session);
        let rows = flight.query(&ROWS, vec![&last]);
        let keys = flight.query(&KEYS, vec![]);
        let tallies = flight.query(&TALLIES, vec![]);
        let landed = flight.land().await?;
        let mut totals = Totals::default();
        for row in landed.rows(rows) {
            let mut cells = Cells::of(row);
            (totals.jobs_above, totals.live) = (cells.take()?, cells.take()?);
            (totals.done, totals.traces) = (cells.take()?, cells.take()?);
        }
        for row in landed.rows(keys) {
            let mut cells = Cells::of(row);
            (totals.listed, totals.disordered) = (cells.take()?, cells.take()?);
        }
        for row in landed.rows(tallies) {
            let mut cells = Cells::of(row);
            let queue = queue_id(cells.take()?);
            let (unfinished, completed) = (cells.take()?, cells.take()?);
            let (dead, cancelled) = (cells.take()?, cells.take()?);
            totals.tallies.insert(queue, Tally { unfinished, completed, dead, cancelled });
        }
        Ok(totals)
    }
}

impl Totals {
    /// Holds them against what was counted of the jobs that were moved.
    pub(super) fn compare(&self, moved: &Census, differences: &mut Differences) {
        let unfinished = moved.unfinished();
        let rows = [
            ("jobs above the last one", self.jobs_above, 0),
            ("unfinished jobs", self.live, unfinished),
            ("finished jobs", self.done, moved.jobs - unfinished),
            ("traces of suppressed publishes", self.traces, moved.duplicated),
            ("jobs under keys", self.listed, moved.keys),
            ("keys whose newest job is not the last", self.disordered, 0),
        ];
        for (what, found, expected) in rows {
            let same = u64::try_from(found) == Ok(expected);
            differences.require(same, || format!("there are {found} {what}, not {expected}"));
        }
        for (id, queue) in &moved.queues {
            let counted = self.tallies.get(id).copied().unwrap_or_default();
            differences.require(counted == queue.tally(), || {
                format!("the counts of queue {} are wrong", queue.queue)
            });
        }
    }
}
