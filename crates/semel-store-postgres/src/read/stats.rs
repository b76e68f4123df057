//! Counts of every queue: sums of what transactions noted, and a look at the leases that are out.

use semel_core::name::QueueName;
use semel_store::QueueStats;
use tokio_postgres::Row;

use crate::clock::{StoreClock, database_now};
use crate::fault::Fault;
use crate::row::{Cells, time};
use crate::session::Sql;

/// Every queue with its counts. The first job to become due is looked for priority by priority: the index has them in that
/// order, and there are few.
pub(crate) static COUNTS: Sql = Sql {
    text: concat!(
        "WITH counted AS (
             SELECT queue, sum(unfinished)::bigint AS unfinished, sum(completed)::bigint AS completed,
                    sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled,
                    sum(processing)::bigint AS processing, sum(awaiting)::bigint AS awaiting
             FROM (SELECT queue, unfinished, completed, dead, cancelled, 0 AS processing, 0 AS awaiting
                   FROM semel.tally
                   UNION ALL
                   SELECT queue, 0, 0, 0, 0, (NOT received)::int, received::int
                   FROM semel.live WHERE token IS NOT NULL
                   UNION ALL
                   SELECT id, 0, 0, 0, 0, 0, 0 FROM semel.queue WHERE NOT deleted) AS noted
             GROUP BY queue
         )
         SELECT ",
        database_now!(),
        ", q.name, c.unfinished, c.processing, c.awaiting, c.completed, c.dead, c.cancelled,
           (WITH RECURSIVE first (rank, due) AS (
                (SELECT rank, due FROM semel.live
                 WHERE queue = q.id AND token IS NULL AND open
                 ORDER BY rank, due LIMIT 1)
                UNION ALL
                SELECT next.rank, next.due
                FROM first, LATERAL (SELECT rank, due FROM semel.live
                                     WHERE queue = q.id AND token IS NULL AND open AND rank > first.rank
                                     ORDER BY rank, due LIMIT 1) AS next
            )
            SELECT min(due) FROM first)
         FROM counted AS c
         JOIN semel.queue AS q ON q.id = c.queue
         WHERE NOT q.deleted
         ORDER BY q.name"
    ),
    types: &[],
};

/// The counts in a row of [`COUNTS`].
pub(crate) fn read(row: &Row, clock: &StoreClock) -> Result<QueueStats, Fault> {
    let mut cells = Cells::of(row);
    let now = clock.decides(cells.take()?);
    let name: &str = cells.take()?;
    let queue = QueueName::try_from(name).map_err(|_| Fault::damaged("queue", 0, "its name is not one"))?;
    let mut next = || cells.take::<i64>().map(|count| u64::try_from(count).unwrap_or(0));
    let (unfinished, processing, awaiting_ack) = (next()?, next()?, next()?);
    let (completed, dead, cancelled) = (next()?, next()?, next()?);
    let first_due: Option<i64> = cells.take()?;
    Ok(QueueStats {
        queue,
        pending: unfinished.saturating_sub(processing + awaiting_ack),
        processing,
        awaiting_ack,
        completed,
        dead,
        cancelled,
        oldest_ready: first_due.map(time).filter(|due| *due <= now),
    })
}
