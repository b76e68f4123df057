//! The statements that write, and when each is needed.

use tokio_postgres::types::Type;

use super::Writes;
use super::columns::{KeyIds, QueueColumns, RecordColumns, StrippedColumns, TallyColumns};
use crate::flight::Flight;
use crate::row::{DoneColumns, JobColumns, LiveColumns, TraceColumns, found_in_live};
use crate::session::{Param, Sql};

/// Keys that were not known. Should another node have published one in the meantime the primary key says so, and the whole
/// transaction starts over.
static ADD_KEYS: Sql = Sql {
    text: "INSERT INTO semel.key (queue, key, ids)
           SELECT queue, key, ARRAY[id]
             FROM unnest($1, $2, $3) AS u (queue, key, id)",
    types: KeyIds::TYPES,
};

/// Adds jobs to keys that have some. A row keeps the newest 64 at most; when it is full all but the newest 16 move to
/// another table, because the whole row is written anew with every job that is added.
static APPEND_KEYS: Sql = Sql {
    text: "WITH added AS (
               SELECT queue, key, array_agg(id ORDER BY id) AS ids
                 FROM unnest($1, $2, $3) AS u (queue, key, id)
                GROUP BY queue, key
           ),
           past AS (
               INSERT INTO semel.key_past (queue, key, id)
               SELECT k.queue, k.key, unnest(k.ids[:cardinality(k.ids) - 16])
                 FROM added a
                 JOIN semel.key k ON k.queue = a.queue AND k.key = a.key
                WHERE cardinality(k.ids) >= 64
           )
           UPDATE semel.key k
              SET ids = CASE WHEN cardinality(k.ids) >= 64 THEN k.ids[cardinality(k.ids) - 15:] ELSE k.ids END
                        || a.ids
             FROM added a
            WHERE k.queue = a.queue AND k.key = a.key",
    types: KeyIds::TYPES,
};

/// Lets go of keys together with their only job: nearly all of those that are pruned.
static DROP_SOLE_KEYS: Sql = Sql {
    text: "DELETE FROM semel.key k
            USING unnest($1, $2, $3) AS u (queue, key, id)
            WHERE k.queue = u.queue AND k.key = u.key AND k.ids = ARRAY[u.id]
              AND NOT EXISTS (SELECT FROM semel.key_past p WHERE p.queue = u.queue AND p.key = u.key)",
    types: KeyIds::TYPES,
};

/// Takes jobs off their keys. Several of one key are taken off together.
static LEAVE_KEYS: Sql = Sql {
    text: "UPDATE semel.key k
              SET ids = ARRAY(SELECT unnest(k.ids) EXCEPT SELECT unnest(u.ids) ORDER BY 1)
             FROM (SELECT queue, key, array_agg(id) AS ids
                     FROM unnest($1, $2, $3) AS u (queue, key, id)
                    GROUP BY queue, key) u
            WHERE k.queue = u.queue AND k.key = u.key",
    types: KeyIds::TYPES,
};

static LEAVE_PAST: Sql = Sql {
    text: "DELETE FROM semel.key_past p
            USING unnest($1, $2, $3) AS u (queue, key, id)
            WHERE p.queue = u.queue AND p.key = u.key AND p.id = u.id",
    types: KeyIds::TYPES,
};

/// Gives keys that lost all of their newest jobs the newest of the older ones.
static REFILL_KEYS: Sql = Sql {
    text: "WITH newest AS (
               SELECT p.queue, p.key, p.id
                 FROM (SELECT DISTINCT queue, key FROM unnest($1, $2) AS u (queue, key)) u
                 JOIN semel.key k ON k.queue = u.queue AND k.key = u.key AND k.ids = '{}'
                CROSS JOIN LATERAL (
                      SELECT *
                        FROM semel.key_past
                       WHERE queue = u.queue AND key = u.key
                       ORDER BY id DESC
                       LIMIT 16
                      ) p
           ),
           past AS (
               DELETE FROM semel.key_past p
                USING newest n
                WHERE p.queue = n.queue AND p.key = n.key AND p.id = n.id
           )
           UPDATE semel.key k
              SET ids = n.ids
             FROM (SELECT queue, key, array_agg(id ORDER BY id) AS ids FROM newest GROUP BY queue, key) n
            WHERE k.queue = n.queue AND k.key = n.key",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY],
};

/// Lets go of keys under which there is no job any more.
static DROP_KEYS: Sql = Sql {
    text: "DELETE FROM semel.key k
            USING unnest($1, $2) AS u (queue, key)
            WHERE k.queue = u.queue AND k.key = u.key AND k.ids = '{}'",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY],
};

/// New jobs with their keys: what most batches write, in one call instead of three.
static MAKE_JOBS: Sql = Sql {
    text: "WITH keys AS (
               INSERT INTO semel.key (queue, key, ids)
               SELECT queue, key, ARRAY[id]
                 FROM unnest($1, $2, $3) AS u (queue, key, id)
           ),
           jobs AS (
               INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, grp, gated, fingerprint,
                                      payload, metadata, overrides)
               SELECT * FROM unnest($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
           )
           INSERT INTO semel.live (id, queue, rank, due, open, grp, joined, attempts, deferrals, progress,
                                   token, since, deadline, received, node)
           SELECT * FROM unnest($16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)",
    types: &[
        // KeyIds
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        // JobColumns
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        // LiveColumns
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::BOOL_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BOOL_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// Jobs that finish, and the counts: what most batches write otherwise, in one call instead of three.
static END_JOBS: Sql = Sql {
    text: concat!(
        "WITH gone AS (
               DELETE FROM semel.live l USING ",
        found_in_live!("$1", "id"),
        " WHERE l.ctid = u.at
           ),
           done AS (
               INSERT INTO semel.done (id, queue, state, due, finished_at, attempts, deferrals, progress, look_at)
               SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)
           )
           INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
           SELECT * FROM unnest($11, $12, $13, $14, $15)"
    ),
    types: &[
        // Jobs that leave.
        Type::INT8_ARRAY,
        // DoneColumns
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        // TallyColumns
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

static ADD_JOBS: Sql = Sql {
    text: "INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, grp, gated, fingerprint,
                                  payload, metadata, overrides)
           SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    types: JobColumns::TYPES,
};

static ADD_LIVE: Sql = Sql {
    text: "INSERT INTO semel.live (id, queue, rank, due, open, grp, joined, attempts, deferrals, progress,
                                   token, since, deadline, received, node)
           SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    types: LiveColumns::TYPES,
};

/// What never changes of an unfinished job is left alone; so is the node that has its lease out, as long as there is one.
static CHANGE_LIVE: Sql = Sql {
    text: concat!(
        "UPDATE semel.live l
            SET due = u.due, open = u.open, joined = u.joined, attempts = u.attempts, deferrals = u.deferrals,
                progress = u.progress, token = u.token, since = u.since, deadline = u.deadline,
                received = u.received, node = CASE WHEN u.token IS NOT NULL THEN l.node END
           FROM ",
        found_in_live!(
            "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15",
            "id, queue, rank, due, open, grp, joined, attempts, deferrals, progress, token, since, deadline, received, node"
        ),
        " WHERE l.ctid = u.at"
    ),
    types: LiveColumns::TYPES,
};

static DROP_LIVE: Sql = Sql {
    text: concat!("DELETE FROM semel.live l USING ", found_in_live!("$1", "id"), " WHERE l.ctid = u.at"),
    types: &[Type::INT8_ARRAY],
};

static ADD_DONE: Sql = Sql {
    text:
        "INSERT INTO semel.done (id, queue, state, due, finished_at, attempts, deferrals, progress, look_at)
           SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    types: DoneColumns::TYPES,
};

static CHANGE_DONE: Sql = Sql {
    text: "UPDATE semel.done d
              SET state = u.state, due = u.due, finished_at = u.finished_at, attempts = u.attempts,
                  deferrals = u.deferrals, progress = u.progress, look_at = u.look_at
             FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
                  AS u (id, queue, state, due, finished_at, attempts, deferrals, progress, look_at)
            WHERE d.id = u.id",
    types: DoneColumns::TYPES,
};

static DROP_DONE: Sql = Sql {
    text: "DELETE FROM semel.done d USING unnest($1) AS u (id) WHERE d.id = u.id",
    types: &[Type::INT8_ARRAY],
};

/// What is left of a payload is its fingerprint, and a digest that PostgreSQL can make too: `semel.publish` compares by that.
static STRIP_JOBS: Sql = Sql {
    text: "UPDATE semel.job j
              SET payload = NULL, metadata = NULL, fingerprint = u.fingerprint || sha256(convert_to(j.payload, 'UTF8'))
             FROM unnest($1, $2) AS u (id, fingerprint)
            WHERE j.id = u.id",
    types: StrippedColumns::TYPES,
};

static DROP_JOBS: Sql = Sql {
    text: "DELETE FROM semel.job j USING unnest($1) AS u (id) WHERE j.id = u.id",
    types: &[Type::INT8_ARRAY],
};

static SET_TRACES: Sql = Sql {
    text: "INSERT INTO semel.trace (job, duplicates, suppressed)
           SELECT * FROM unnest($1, $2, $3)
               ON CONFLICT (job) DO UPDATE
              SET duplicates = excluded.duplicates, suppressed = excluded.suppressed",
    types: TraceColumns::TYPES,
};

static DROP_TRACES: Sql = Sql {
    text: "DELETE FROM semel.trace t USING unnest($1) AS u (id) WHERE t.job = u.id",
    types: &[Type::INT8_ARRAY],
};

/// An id that was handed out is never handed out again, though its job is gone.
static REMEMBER_IDS: Sql = Sql {
    text: "INSERT INTO semel.lane AS known (lane, last_id)
           SELECT ((u.id >> 12) & 1023)::int, max(u.id)
             FROM unnest($1) AS u (id)
            GROUP BY 1
            ORDER BY 1
               ON CONFLICT (lane) DO UPDATE SET last_id = excluded.last_id
            WHERE known.last_id < excluded.last_id",
    types: &[Type::INT8_ARRAY],
};

static ADD_TALLIES: Sql = Sql {
    text: "INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
           SELECT * FROM unnest($1, $2, $3, $4, $5)",
    types: TallyColumns::TYPES,
};

static SET_RECORDS: Sql = Sql {
    text: "INSERT INTO semel.record (kind, name, body)
           SELECT kind, name, body
             FROM unnest($1, $2, $3) AS u (kind, name, body)
            WHERE body IS NOT NULL
               ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body",
    types: RecordColumns::TYPES,
};

static DROP_RECORDS: Sql = Sql {
    text: "DELETE FROM semel.record r
            USING unnest($1, $2, $3) AS u (kind, name, body)
            WHERE r.kind = u.kind AND r.name = u.name AND u.body IS NULL",
    types: RecordColumns::TYPES,
};

/// The version tells other nodes that the rules they made of the settings are old; the gate is no part of those.
static CHANGE_QUEUES: Sql = Sql {
    text: "UPDATE semel.queue q
              SET config = coalesce(u.config, q.config), secrets = coalesce(u.secrets, q.secrets),
                  version = q.version + (u.config IS NOT NULL OR u.secrets IS NOT NULL)::int,
                  gate = u.gate, free = u.free, paused = u.paused
             FROM unnest($1, $2, $3, $4, $5, $6) AS u (id, config, secrets, gate, free, paused)
            WHERE q.id = u.id",
    types: QueueColumns::TYPES,
};

static NONE: Vec<i64> = Vec::new();

impl Writes {
    /// Whether jobs with new keys are made, and nothing is added to a key: that may be one of the new ones, which must be there
    /// by then (a job that is buried and published again in one batch).
    fn makes_jobs(&self) -> bool {
        let some = !(self.new_keys.id.is_empty() || self.jobs.id.is_empty() || self.live_new.id.is_empty());
        some && self.more_keys.id.is_empty()
    }

    /// Whether unfinished jobs finish.
    fn ends_jobs(&self) -> bool {
        !(self.live_gone.is_empty() || self.done_new.id.is_empty())
    }

    /// What belongs to a table of its own in the few batches that do something unusual, together where it is usual.
    fn add_together<'a>(&'a self, flight: &mut Flight<'a>) {
        if self.makes_jobs() {
            let (keys, jobs, live) = (&self.new_keys, &self.jobs, &self.live_new);
            flight.query(&MAKE_JOBS, [keys.params(), jobs.params(), live.params()].concat());
        }
        if self.ends_jobs() {
            let gone: Vec<Param<'a>> = vec![&self.live_gone];
            flight.query(&END_JOBS, [gone, self.done_new.params(), self.tallies.params()].concat());
        }
    }

    pub(super) fn add_keys<'a>(&'a self, flight: &mut Flight<'a>) {
        if !self.new_keys.queue.is_empty() && !self.makes_jobs() {
            flight.query(&ADD_KEYS, self.new_keys.params());
        }
        if !self.more_keys.queue.is_empty() {
            flight.query(&APPEND_KEYS, self.more_keys.params());
        }
        if !self.left_keys.queue.is_empty() {
            flight.query(&DROP_SOLE_KEYS, self.left_keys.params());
            flight.query(&LEAVE_KEYS, self.left_keys.params());
            flight.query(&LEAVE_PAST, self.left_keys.params());
            flight.query(&REFILL_KEYS, vec![&self.left_keys.queue, &self.left_keys.key]);
            flight.query(&DROP_KEYS, vec![&self.left_keys.queue, &self.left_keys.key]);
        }
    }

    /// A job leaves one table before it enters the other.
    pub(super) fn add_jobs<'a>(&'a self, flight: &mut Flight<'a>) {
        let (made, ended) = (self.makes_jobs(), self.ends_jobs());
        self.add_together(flight);
        if !self.jobs.id.is_empty() && !made {
            flight.query(&ADD_JOBS, self.jobs.params());
        }
        if !self.stripped.id.is_empty() {
            flight.query(&STRIP_JOBS, self.stripped.params());
        }
        let gone: [(&'static Sql, &'a Vec<i64>); 6] = [
            (&DROP_LIVE, if ended { &NONE } else { &self.live_gone }),
            (&DROP_DONE, &self.done_gone),
            (&DROP_JOBS, &self.dropped),
            (&DROP_TRACES, &self.dropped),
            (&REMEMBER_IDS, &self.dropped),
            (&REMEMBER_IDS, &self.short_lived),
        ];
        for (sql, ids) in gone.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            flight.query(sql, vec![ids]);
        }
        if !self.live_new.id.is_empty() && !made {
            flight.query(&ADD_LIVE, self.live_new.params());
        }
        if !self.live_changed.id.is_empty() {
            flight.query(&CHANGE_LIVE, self.live_changed.params());
        }
        if !self.done_new.id.is_empty() && !ended {
            flight.query(&ADD_DONE, self.done_new.params());
        }
        if !self.done_changed.id.is_empty() {
            flight.query(&CHANGE_DONE, self.done_changed.params());
        }
    }

    pub(super) fn add_rest<'a>(&'a self, flight: &mut Flight<'a>) {
        if !self.traces.job.is_empty() {
            flight.query(&SET_TRACES, self.traces.params());
        }
        if !self.records.kind.is_empty() {
            flight.query(&SET_RECORDS, self.records.params());
            flight.query(&DROP_RECORDS, self.records.params());
        }
        if !self.queues.id.is_empty() {
            flight.query(&CHANGE_QUEUES, self.queues.params());
        }
        if !self.tallies.queue.is_empty() && !self.ends_jobs() {
            flight.query(&ADD_TALLIES, self.tallies.params());
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::key::Key;

    use super::*;

    #[test]
    fn a_key_that_is_new_is_there_before_more_is_added_to_it() {
        let key = Key::try_from("k").unwrap();
        let mut writes = Writes::default();
        writes.jobs.id = vec![1, 2];
        writes.live_new.id = vec![2];
        writes.new_keys.push(7, &key, 1);
        assert!(writes.makes_jobs(), "the key comes with its job");
        writes.more_keys.push(7, &key, 2);
        assert!(!writes.makes_jobs(), "the key comes first");
    }

    #[test]
    fn plans_that_were_made_while_nothing_was_there_find_rows_by_their_place() {
        crate::scratch::assert_places_are_found(&[&END_JOBS, &CHANGE_LIVE, &DROP_LIVE]);
    }
}
