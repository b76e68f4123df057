//! The statements that lease.

use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::row::{found_in_live, job_columns, queue_columns};
use crate::session::Sql;

/// The jobs that are ready, their ids and the places of their rows, in ready order: priority by priority, because the index has the jobs
/// that are due first of each, and behind them perhaps a million that are not due. It ends with what locks a row.
///
/// It needs `q (id)`, the queue, and `t (now)`; `$max` is the parameter with the number of jobs asked for. Of one priority, `$rank`, only
/// jobs behind the one with `$due` and `$id` are looked at. That priority is tried without asking whether it has any, because to
/// find that out is to walk past the places of those that went out before.
macro_rules! ready_jobs {
    ($max:literal, $rank:literal, $due:literal, $id:literal) => {
        concat!(
            "ranks (queue, rank) AS (
                 SELECT q.id, coalesce((SELECT l.rank
                                          FROM semel.live l
                                         WHERE l.queue = q.id AND l.token IS NULL AND l.open AND l.rank < ",
            $rank,
            "
                                         ORDER BY l.rank
                                         LIMIT 1), ",
            $rank,
            ")
                   FROM q
                  UNION ALL
                 SELECT r.queue,
                        CASE WHEN r.rank < ",
            $rank,
            " THEN coalesce((SELECT l.rank
                                FROM semel.live l
                               WHERE l.queue = r.queue AND l.token IS NULL AND l.open
                                 AND l.rank > r.rank AND l.rank < ",
            $rank,
            "
                               ORDER BY l.rank
                               LIMIT 1), ",
            $rank,
            ")
                             ELSE (SELECT l.rank
                                     FROM semel.live l
                                    WHERE l.queue = r.queue AND l.token IS NULL AND l.open AND l.rank > r.rank
                                    ORDER BY l.rank
                                    LIMIT 1)
                        END
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
                           AND (l.due, l.id) > (CASE r.rank WHEN ",
            $rank,
            " THEN ",
            $due,
            " ELSE -9223372036854775808 END, CASE r.rank WHEN ",
            $rank,
            " THEN ",
            $id,
            " ELSE -9223372036854775808 END)
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

/// Leases jobs of a free queue. It gives one row at least, unless there is no such queue: the first three cells tell the time,
/// whether the queue is free and as the node knows it, and whether it is paused; the next three when a job was due, its rank, and
/// whether more has become of it than its columns tell. How the rows are found again: `found_in_live`.
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
        ready_jobs!("$5", "$8", "$9", "$10"),
        ",
         taken AS (
             UPDATE semel.live l
                SET token = nextval('semel.token'), since = t.now, deadline = t.now + $6, received = false, node = $7
               FROM (SELECT at FROM ready LIMIT $5) r, t
              WHERE l.ctid = r.at
             RETURNING l.*
         )
         SELECT t.now, named.as_known, named.paused, l.due, l.rank, l.progress IS NOT NULL, ",
        lease_columns!(),
        " FROM t
         CROSS JOIN named
          LEFT JOIN taken l ON true
          LEFT JOIN semel.job j ON j.id = l.id
         ORDER BY l.rank, l.due, l.id"
    ),
    types: &[
        Type::TEXT,
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT4,
        // Behind which job to look.
        Type::INT2,
        Type::INT8,
        Type::INT8,
    ],
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
        ready_jobs!("$3", "0::smallint", "-9223372036854775808", "-9223372036854775808"),
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
    use crate::options::Options;
    use crate::scratch;
    use crate::session::Link;
    use crate::store::PostgresStore;

    /// Of so many jobs all have gone out but the last.
    const GONE: i64 = 20_000;

    /// Nothing is cleared away meanwhile, as between two vacuums.
    const LEFT_BEHIND: &str = "
        ALTER TABLE semel.live SET (autovacuum_enabled = off);
        INSERT INTO semel.queue (name, config, gate, secrets, created_at, free) VALUES ('q', '', '', '', 0, true);
        INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals)
        SELECT n, 1, 0, n, true, 0, 0, 0 FROM generate_series(1, 20001) n;
        UPDATE semel.live SET token = 1 WHERE id <= 20000;
        DELETE FROM semel.live WHERE token IS NOT NULL";

    /// How many pages a lease looks at.
    async fn pages(link: &Link, rank: i16, due: i64) -> u64 {
        let types: Vec<_> = FREE_LEASE.types.iter().map(Type::name).collect();
        let text = format!("DEALLOCATE ALL; PREPARE lease ({}) AS {}", types.join(", "), FREE_LEASE.text);
        link.script(&text).await.expect("the statement is prepared");
        let lease = format!("EXECUTE lease ('q', 1, 1, NULL, 1, 0, 0, {rank}, {due}, 0)");
        scratch::pages(link, &lease).await
    }

    #[test]
    fn a_lease_that_begins_behind_what_went_out_does_not_walk_past_it() {
        let database = scratch::database();
        scratch::runtime().block_on(async {
            let store =
                PostgresStore::open(database.url(), Options::default()).await.expect("the store opens");
            let session = store.pool.session().await.expect("there is a connection");
            session.script(LEFT_BEHIND).await.expect("jobs come and go");
            // The first ones also note in the index what is gone, and put the row back.
            let put_back = "UPDATE semel.live SET token = NULL";
            for _ in 0..2 {
                pages(&session, 0, i64::MIN + 1).await;
                session.script(put_back).await.expect("it is ready again");
            }
            let front = pages(&session, 0, i64::MIN + 1).await;
            session.script(put_back).await.expect("it is ready again");
            let behind = pages(&session, 0, GONE).await;
            let leased = session
                .query_text("SELECT token IS NOT NULL FROM semel.live", &[])
                .await
                .expect("it is there");
            assert!(leased[0].get::<_, bool>(0), "the lease that began behind found the job");
            assert!(behind + 50 < front, "{behind} pages from behind, {front} from the front");
            drop(session);
            store.abandon();
        });
    }

    #[test]
    fn plans_that_were_made_while_nothing_was_there_find_rows_by_their_place() {
        scratch::assert_places_are_found(&[&FREE_LEASE, &SET_DEADLINES, &TAKE]);
    }
}
