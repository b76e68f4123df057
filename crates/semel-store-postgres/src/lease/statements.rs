//! The statements that lease.

use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::row::{found_in_live, job_columns, queue_columns};
use crate::session::Sql;

/// The jobs that are ready, their ids and the places of their rows, in ready order: priority by priority, because the index has the jobs
/// that are due first of each, and behind them perhaps a million that are not due. It ends with what locks a row.
///
/// It needs `q (id)`, the queue, and `t (now)`; `$n` is the parameter with the number of jobs asked for.
macro_rules! ready_jobs {
    ($max:literal) => {
        concat!(
            "ranks (queue, rank) AS (
                 SELECT q.id, (SELECT l.rank
                                 FROM semel.live l
                                WHERE l.queue = q.id AND l.token IS NULL AND l.open
                                ORDER BY l.rank
                                LIMIT 1)
                   FROM q
                  UNION ALL
                 SELECT r.queue, (SELECT l.rank
                                    FROM semel.live l
                                   WHERE l.queue = r.queue AND l.token IS NULL AND l.open AND l.rank > r.rank
                                   ORDER BY l.rank
                                   LIMIT 1)
                   FROM ranks r
                  WHERE r.rank IS NOT NULL
             ),
             ready AS MATERIALIZED (
                 SELECT job.*
                   FROM ranks r
                  CROSS JOIN LATERAL (
                        SELECT l.id, l.rank, l.due, l.ctid AS at
                          FROM semel.live l
                         WHERE l.queue = r.queue AND l.rank = r.rank AND l.token IS NULL AND l.open
                           AND l.due <= (SELECT now FROM t)
                         ORDER BY l.due, l.id
                         LIMIT ",
            $max,
            "
                           FOR UPDATE SKIP LOCKED
                        ) job
                  LIMIT ",
            $max,
            "
             )"
        )
    };
}

/// The columns that [`super::read_delivery`] reads, of a job `j` and its lease `l`.
macro_rules! lease_columns {
    () => {
        concat!("l.id, l.attempts, l.deferrals, l.token, l.deadline, ", job_columns!())
    };
}

/// Leases jobs of a free queue. It gives one row at least, unless there is no such queue: the first two cells tell the time and
/// whether the queue is free and as the node knows it, the next two when a job was due and whether more has become of it than
/// its columns tell. How the rows are found again: `found_in_live`.
pub(super) static FREE_LEASE: Sql = Sql {
    text: concat!(
        "WITH RECURSIVE
         t AS MATERIALIZED (SELECT coalesce($4, ",
        database_now!(),
        ") AS now),
         named AS MATERIALIZED (
             SELECT id, free AND id = $2 AND version = $3 AS as_known, paused
               FROM semel.queue
              WHERE name = $1 AND NOT deleted
         ),
         q AS (SELECT id FROM named WHERE as_known AND NOT paused),
         ",
        ready_jobs!("$5"),
        ",
         taken AS (
             UPDATE semel.live l
                SET token = nextval('semel.token'), since = t.now, deadline = t.now + $6, received = false, node = $7
               FROM (SELECT at FROM ready LIMIT $5) r, t
              WHERE l.ctid = r.at
             RETURNING l.*
         )
         SELECT t.now, named.as_known, l.due, l.progress IS NOT NULL, ",
        lease_columns!(),
        " FROM t
         CROSS JOIN named
          LEFT JOIN taken l ON true
          LEFT JOIN semel.job j ON j.id = l.id
         ORDER BY l.rank, l.due, l.id"
    ),
    types: &[Type::TEXT, Type::INT4, Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT4],
};

/// A queue by its name, and the time.
pub(super) static QUEUE: Sql = Sql {
    text: concat!(
        "SELECT ",
        database_now!(),
        ", ",
        queue_columns!(),
        " FROM semel.queue q WHERE q.name = $1 AND NOT q.deleted"
    ),
    types: &[Type::TEXT],
};

pub(super) static SET_DEADLINES: Sql = Sql {
    text: concat!(
        "UPDATE semel.live l
            SET deadline = u.deadline
           FROM ",
        found_in_live!("$1, $2, $3", "id, token, deadline"),
        " WHERE l.ctid = u.at AND l.token = u.token"
    ),
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

pub(super) static LOCK_QUEUE: Sql =
    Sql { text: "SELECT pg_advisory_xact_lock($1, $2)", types: &[Type::INT4, Type::INT4] };

/// A queue that is locked, the time, and how many of its jobs are out, counted up to `$2`.
pub(super) static LOCKED_QUEUE: Sql = Sql {
    text: concat!(
        "SELECT ",
        database_now!(),
        ",
                (SELECT count(*)
                   FROM (SELECT FROM semel.live l WHERE l.queue = $1 AND l.token IS NOT NULL LIMIT $2) leased), ",
        queue_columns!(),
        " FROM semel.queue q WHERE q.id = $1"
    ),
    types: &[Type::INT4, Type::INT8],
};

/// The jobs of a locked queue that are ready, in ready order, with what they say for themselves.
pub(super) static READY: Sql = Sql {
    text: concat!(
        "WITH RECURSIVE
         t AS MATERIALIZED (SELECT coalesce($2, ",
        database_now!(),
        ") AS now),
         q AS (SELECT $1 AS id),
         ",
        ready_jobs!("$3"),
        "
         SELECT r.id, j.overrides
           FROM ready r
           JOIN semel.job j ON j.id = r.id
          ORDER BY r.rank, r.due, r.id"
    ),
    types: &[Type::INT4, Type::INT8, Type::INT8],
};

/// Leases these jobs, each until its own time.
pub(super) static TAKE: Sql = Sql {
    text: concat!(
        "WITH taken AS (
             UPDATE semel.live l
                SET token = nextval('semel.token'), since = $3, deadline = u.deadline, received = false, node = $4
               FROM ",
        found_in_live!("$1, $2", "id, deadline"),
        " WHERE l.ctid = u.at
             RETURNING l.*
         )
         SELECT ",
        lease_columns!(),
        " FROM taken l
          JOIN semel.job j ON j.id = l.id
         ORDER BY l.rank, l.due, l.id"
    ),
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8, Type::INT4],
};

pub(super) static SET_GATE: Sql = Sql {
    text: "UPDATE semel.queue SET gate = $2, free = $3, paused = $4 WHERE id = $1",
    types: &[Type::INT4, Type::TEXT, Type::BOOL, Type::BOOL],
};

/// A queue, the time, when its first job is due that nothing but time and the gate holds back, and how many jobs are out,
/// counted up to `$2`.
pub(super) static NEXT_DUE: Sql = Sql {
    text: concat!(
        "SELECT ",
        database_now!(),
        ",
                (WITH RECURSIVE first (rank, due) AS (
                     (SELECT rank, due
                        FROM semel.live
                       WHERE queue = q.id AND token IS NULL AND open
                       ORDER BY rank, due
                       LIMIT 1)
                     UNION ALL
                     SELECT next.rank, next.due
                       FROM first
                      CROSS JOIN LATERAL (
                            SELECT rank, due
                              FROM semel.live
                             WHERE queue = q.id AND token IS NULL AND open AND rank > first.rank
                             ORDER BY rank, due
                             LIMIT 1
                            ) next
                 )
                 SELECT min(due) FROM first),
                (SELECT count(*)
                   FROM (SELECT FROM semel.live l WHERE l.queue = q.id AND l.token IS NOT NULL LIMIT $2) leased), ",
        queue_columns!(),
        " FROM semel.queue q WHERE q.name = $1 AND NOT q.deleted"
    ),
    types: &[Type::TEXT, Type::INT8],
};

/// When the first lease of all queues runs out.
pub(super) static NEXT_EXPIRY: Sql = Sql {
    text: "SELECT min(first.deadline)
             FROM semel.queue q
            CROSS JOIN LATERAL (
                  SELECT deadline
                    FROM semel.live
                   WHERE queue = q.id AND token IS NOT NULL
                   ORDER BY deadline
                   LIMIT 1
                  ) first
            WHERE NOT q.deleted",
    types: &[],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;

    #[test]
    fn plans_that_were_made_while_nothing_was_there_find_rows_by_their_place() {
        scratch::assert_places_are_found(&[&FREE_LEASE, &SET_DEADLINES, &TAKE]);
    }
}
