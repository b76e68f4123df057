//! The statements of pruning. A bite has at most [`BITE_MAX`] jobs, and the statements say so: without a number in them the
//! planner takes a tenth of the table for a bite, and sorts it.

use tokio_postgres::types::Type;

use crate::apply::lean_job_columns;
use crate::row::{done_columns, queue_columns};
use crate::session::Sql;

/// Most finished jobs that one command looks at, whatever it was told.
pub(super) const BITE_MAX: i64 = 1000;

/// The place where the sweep stands. Whoever holds it is the only one who sweeps or starts a sweep.
pub(super) static LOCK_PLACE: Sql =
    Sql { text: "SELECT value FROM semel.meta WHERE name = 'swept' FOR UPDATE", types: &[] };

/// The queues whose finished jobs are to be swept.
pub(super) static SWEPT_QUEUES: Sql = Sql {
    text: concat!("SELECT ", queue_columns!(), " FROM semel.queue q WHERE q.sweep_to IS NOT NULL"),
    types: &[],
};

/// How many finished jobs the next bite of the sweep looks at, and the last of them.
pub(super) static SWEPT_RANGE: Sql = Sql {
    text: "SELECT count(*), max(id)
             FROM (SELECT id
                     FROM (SELECT id FROM semel.done WHERE id > $1 AND id <= $2 ORDER BY id LIMIT 1000) next
                    LIMIT $3) bite",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Those of them that are of a queue that is swept.
pub(super) static SWEPT_JOBS: Sql = Sql {
    text: concat!(
        "SELECT d.id, d.queue, ",
        lean_job_columns!(finished),
        ", ",
        done_columns!(),
        " FROM (SELECT *
                  FROM semel.done
                 WHERE id > $1 AND id <= $2 AND queue = ANY ($3)
                 ORDER BY id
                   FOR UPDATE) d
         CROSS JOIN (SELECT NULL::bytea AS print) u
          JOIN semel.job j ON j.id = d.id"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT4_ARRAY],
};

/// The sweep goes on after this job.
pub(super) static MARK_PLACE: Sql =
    Sql { text: "UPDATE semel.meta SET value = $1 WHERE name = 'swept'", types: &[Type::INT8] };

/// The sweep is through.
pub(super) static END_SWEEP: Sql =
    Sql { text: "UPDATE semel.queue SET sweep_to = NULL WHERE sweep_to IS NOT NULL", types: &[] };

/// Finished jobs whose time has come.
pub(super) static TO_LOOK_AT: Sql = Sql {
    text: "SELECT d.id, d.queue, j.key
             FROM (SELECT id, queue
                     FROM semel.done
                    WHERE look_at <= $1
                    ORDER BY look_at, id
                    LIMIT 1001) d
             JOIN semel.job j ON j.id = d.id
            LIMIT $2",
    types: &[Type::INT8, Type::INT8],
};

/// Locks queues in order, and says which: all of them if it may wait, else those that nobody has for himself.
pub(super) static LOCK_QUEUES: Sql = Sql {
    text: "WITH sorted AS MATERIALIZED (SELECT unnest($2) AS id ORDER BY 1),
                locked AS MATERIALIZED (
                    SELECT id, CASE WHEN $3 THEN pg_advisory_xact_lock_shared($1, id)::text IS NOT NULL
                                    ELSE pg_try_advisory_xact_lock_shared($1, id)
                                END AS held
                      FROM sorted
                )
           SELECT id FROM locked WHERE held",
    types: &[Type::INT4, Type::INT4_ARRAY, Type::BOOL],
};

pub(super) static QUEUES: Sql = Sql {
    text: concat!("SELECT ", queue_columns!(), " FROM semel.queue q WHERE q.id = ANY ($1)"),
    types: &[Type::INT4_ARRAY],
};

/// Locks keys, and says which of them somebody else has: an application that publishes under one in a transaction of its own,
/// which may last. Nobody waits for that here, with others behind him.
pub(super) static LOCK_KEYS: Sql = Sql {
    text: "WITH locked AS MATERIALIZED (
               SELECT u.queue, u.key
                 FROM unnest($1, $2) AS u (queue, key)
                CROSS JOIN LATERAL (
                      SELECT FROM semel.key WHERE queue = u.queue AND key = u.key FOR UPDATE SKIP LOCKED
                      ) k
           )
           SELECT u.queue, u.key
             FROM unnest($1, $2) AS u (queue, key)
            WHERE EXISTS (SELECT FROM semel.key WHERE queue = u.queue AND key = u.key)
           EXCEPT
           SELECT queue, key FROM locked",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY],
};

/// The finished jobs themselves, if they are still to be looked at. Their queue is locked, so no rule changes meanwhile.
pub(super) static TO_PRUNE: Sql = Sql {
    text: concat!(
        "SELECT d.id, d.queue, ",
        lean_job_columns!(finished),
        ", ",
        done_columns!(),
        " FROM (SELECT unnest($1) AS id, NULL::bytea AS print) u
         CROSS JOIN LATERAL (
               SELECT *
                 FROM semel.done
                WHERE id = u.id AND look_at <= $2 AND queue = ANY ($3)
                  FOR UPDATE SKIP LOCKED
               ) d
          JOIN semel.job j ON j.id = u.id"
    ),
    types: &[Type::INT8_ARRAY, Type::INT8, Type::INT4_ARRAY],
};

/// Sets the time at which to look at finished jobs again.
pub(super) static LOOK_ANEW: Sql = Sql {
    text: "UPDATE semel.done d
              SET look_at = u.look_at
             FROM unnest($1, $2) AS u (id, look_at)
            WHERE d.id = u.id AND d.look_at <> u.look_at",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY],
};

/// Adds up the changes of counts, when there are many. Rows that somebody else is adding up are left to them.
pub(super) static FOLD_TALLIES: Sql = Sql {
    text: "WITH many AS (
               SELECT count(*) >= $1 AS yes FROM (SELECT FROM semel.tally LIMIT $1) first
           ),
           taken AS (
               DELETE FROM semel.tally
                WHERE ctid = ANY (ARRAY(SELECT ctid FROM semel.tally
                                         WHERE (SELECT yes FROM many)
                                           FOR UPDATE SKIP LOCKED))
               RETURNING *
           )
           INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
           SELECT queue, sum(unfinished), sum(completed), sum(dead), sum(cancelled)
             FROM taken
            GROUP BY queue",
    types: &[Type::INT8],
};

/// Lets go of deleted queues of which no job is left.
pub(super) static DROP_DELETED_QUEUES: Sql = Sql {
    text: "DELETE FROM semel.queue q
            WHERE q.deleted AND q.sweep_to IS NULL
              AND (SELECT coalesce(sum(completed + dead + cancelled), 0)
                     FROM semel.tally t
                    WHERE t.queue = q.id) = 0",
    types: &[],
};

/// Lets go of the counts of queues that are gone.
pub(super) static DROP_ORPHANED_TALLIES: Sql = Sql {
    text: "DELETE FROM semel.tally t
            WHERE NOT EXISTS (SELECT FROM semel.queue q WHERE q.id = t.queue)",
    types: &[],
};
