//! The statements that load. Each takes arrays and looks up one row per element by a primary key, so that it costs the same
//! with a hundred million rows as with a thousand. Rows are locked in a sub-select of their own, which fixes the order: that of
//! the array, which is sorted. (An ORDER BY would leave it to the planner to start from the table.)

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::{Cells, done_columns, live_columns, queue_columns};
use crate::session::Sql;

/// The columns of `job_columns`, as far as deciding needs them: the payload only where it is not the one with the
/// fingerprint `u.print`, else a stand-in that tells that there is one; no metadata. A finished job may be stripped, so the
/// fingerprint of one that has none yet must be made, and that needs its payload.
macro_rules! lean_job_columns {
    (unfinished) => {
        lean_job_columns!("u.print IS NULL")
    };
    (finished) => {
        lean_job_columns!("u.print IS NULL AND j.fingerprint <> '\\x00'")
    };
    ($nobody_compares:literal) => {
        concat!(
            "j.created_at, j.run_at, j.priority, j.key, j.grp, j.gated, j.fingerprint,
             CASE WHEN j.payload IS NULL THEN NULL
                  WHEN ",
            $nobody_compares,
            " OR u.print = j.fingerprint THEN 'null'
                  ELSE j.payload
              END,
             NULL::text, j.overrides"
        )
    };
}
pub(crate) use lean_job_columns;

/// The queues that are locked, and those that the transaction has made itself.
pub(super) static QUEUES: Sql = Sql {
    text: concat!(
        "SELECT ",
        queue_columns!(),
        " FROM semel.queue q
         WHERE q.id = ANY (current_setting('semel.queues')::int[] || $1)"
    ),
    types: &[Type::INT4_ARRAY],
};

/// Keys that are known, locked in order, each with the newest `$3` of its jobs.
pub(super) static KEYS: Sql = Sql {
    text: "SELECT k.queue, k.key, k.ids[greatest(cardinality(k.ids) - $3 + 1, 1):]
             FROM unnest($1, $2) AS u (queue, key)
            CROSS JOIN LATERAL (
                  SELECT * FROM semel.key WHERE queue = u.queue AND key = u.key FOR UPDATE
                  ) k",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::INT4],
};

/// Unfinished jobs, locked in order.
pub(super) static LIVE_JOBS: Sql = Sql {
    text: concat!(
        "SELECT l.id, l.queue, ",
        lean_job_columns!(unfinished),
        ", ",
        live_columns!(),
        " FROM unnest($1, $2) AS u (id, print)
         CROSS JOIN LATERAL (SELECT * FROM semel.live WHERE id = u.id FOR UPDATE) l
          JOIN semel.job j ON j.id = u.id"
    ),
    types: &[Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};

/// Finished jobs, locked in order.
pub(super) static DONE_JOBS: Sql = Sql {
    text: concat!(
        "SELECT d.id, d.queue, ",
        lean_job_columns!(finished),
        ", ",
        done_columns!(),
        " FROM unnest($1, $2) AS u (id, print)
         CROSS JOIN LATERAL (SELECT * FROM semel.done WHERE id = u.id FOR UPDATE) d
          JOIN semel.job j ON j.id = u.id"
    ),
    types: &[Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};

/// The suppressed publishes of jobs.
pub(super) static TRACES: Sql = Sql {
    text: "SELECT t.job, t.duplicates, t.suppressed
             FROM unnest($1) AS u (id)
             JOIN semel.trace t ON t.job = u.id",
    types: &[Type::INT8_ARRAY],
};

/// Which of these jobs there are.
pub(super) static KNOWN_JOBS: Sql = Sql {
    text: "SELECT j.id
             FROM unnest($1) AS u (id)
             JOIN semel.job j ON j.id = u.id",
    types: &[Type::INT8_ARRAY],
};

/// How many jobs of each line are open.
pub(super) static OPEN_IN_LINES: Sql = Sql {
    text: "SELECT u.queue, u.grp,
                  (SELECT count(*) FROM semel.live l WHERE l.queue = u.queue AND l.grp = u.grp AND l.open)
             FROM unnest($1, $2) AS u (queue, grp)",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY],
};

/// The first who wait in each line. The queue is locked, so they need no lock of their own.
pub(super) static WAITING_IN_LINES: Sql = Sql {
    text: concat!(
        "SELECT l.id, l.queue, ",
        lean_job_columns!(unfinished),
        ", ",
        live_columns!(),
        " FROM unnest($1, $2, $3) AS asked (queue, grp, most)
         CROSS JOIN LATERAL (
               SELECT *
                 FROM semel.live w
                WHERE w.queue = asked.queue AND w.grp = asked.grp AND NOT w.open
                ORDER BY w.joined, w.id
                LIMIT asked.most
               ) l
         CROSS JOIN (SELECT NULL::bytea AS print) u
          JOIN semel.job j ON j.id = l.id"
    ),
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::INT4_ARRAY],
};

/// Schedules, API keys and replays, locked in order.
pub(super) static RECORDS: Sql = Sql {
    text: "SELECT r.kind, r.name, r.body
             FROM unnest($1, $2) AS u (kind, name)
            CROSS JOIN LATERAL (
                  SELECT * FROM semel.record WHERE kind = u.kind AND name = u.name FOR UPDATE
                  ) r",
    types: &[Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

/// The record in a row of [`RECORDS`].
pub(super) fn record<T: DeserializeOwned>(row: &Row) -> Result<T, Fault> {
    let mut cells = Cells::of(row);
    let (_, name, body): (&str, &str, &str) = (cells.take()?, cells.take()?, cells.take()?);
    serde_json::from_str(body)
        .map_err(|e| Fault::damaged("record", 0, &format!("{name} cannot be read: {e}")))
}
