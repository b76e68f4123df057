//! The beginning and the end of a move.

use semel_core::ids::{JobId, Token};
use semel_core::time::Timestamp;
use semel_store::transfer::{Holdings, KeptQueue};
use semel_store::working::Changes;
use semel_store::{Progress, StoreError, Watcher};
use tokio_postgres::types::Type;

use super::marker::{FINISH, Marker};
use super::{Move, Target, not_opened, stopped};
use crate::apply;
use crate::catalog::queue_number;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::locks;
use crate::row::{
    Cells, columns, config_text, gate_text, is_free, secrets_text, sql_id, sql_time, sql_token,
};
use crate::session::{Link, Session, Sql};

/// How a move stands when it is called upon.
pub(super) enum Standing {
    /// It has just begun.
    Begun,
    /// It is under way; jobs up to this one are through, and so many they are.
    Under(JobId, u64),
    /// It is finished.
    Moved,
}

/// The same lock as that of a node that joins: either it is on the list when a move looks, or it sees that a move began.
static LOCK: Sql = Sql { text: "SELECT pg_advisory_xact_lock($1, 0)", types: &[Type::INT4] };

/// A transaction of a process that was killed may still be under way.
static WAIT_FOR_OTHERS: Sql = Sql { text: "SELECT FROM semel.move FOR UPDATE", types: &[] };

static MADE: Sql = Sql { text: "SELECT to_regclass('semel.queue') IS NOT NULL", types: &[] };

/// What is in the database, in words; nothing if it is empty.
static CONTENT: Sql = Sql {
    text: "SELECT string_agg(what, ', ')
             FROM (SELECT 'queues' WHERE EXISTS (SELECT FROM semel.queue)
                    UNION ALL
                   SELECT 'jobs' WHERE EXISTS (SELECT FROM semel.job)
                    UNION ALL
                   SELECT 'keys' WHERE EXISTS (SELECT FROM semel.key)
                    UNION ALL
                   SELECT 'schedules, API keys or replays' WHERE EXISTS (SELECT FROM semel.record)) AS found (what)",
    types: &[],
};

static NODES: Sql = Sql { text: "SELECT string_agg(name, ', ' ORDER BY id) FROM semel.node", types: &[] };

columns! {
    /// Queues with their numbers.
    QueueColumns {
        id: i32 => INT4_ARRAY,
        name: String => TEXT_ARRAY,
        config: String => TEXT_ARRAY,
        gate: String => TEXT_ARRAY,
        secrets: String => TEXT_ARRAY,
        created_at: i64 => INT8_ARRAY,
        free: bool => BOOL_ARRAY,
        paused: bool => BOOL_ARRAY,
    }
}

/// Until the move is finished they all count as deleted: an application that publishes in SQL needs no node, and finds none of
/// them.
static ADD_QUEUES: Sql = Sql {
    text: "INSERT INTO semel.queue (id, name, config, gate, secrets, created_at, free, paused, deleted)
           OVERRIDING SYSTEM VALUE
           SELECT *, true FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)",
    types: QueueColumns::TYPES,
};

/// The next queue gets a number above those that were moved.
static NUMBER_ON: Sql = Sql {
    text: "SELECT setval(pg_get_serial_sequence('semel.queue', 'id'), max(id))
             FROM semel.queue
           HAVING max(id) IS NOT NULL",
    types: &[],
};

/// The next id is above all that the other store made, those of jobs that are gone included.
static REMEMBER_ID: Sql = Sql {
    text: "INSERT INTO semel.lane AS known (lane, last_id)
           SELECT (($1 >> 12) & 1023)::int, $1 WHERE $1 > 0
               ON CONFLICT (lane) DO UPDATE SET last_id = excluded.last_id
            WHERE known.last_id < excluded.last_id",
    types: &[Type::INT8],
};

/// The same for ids that are made by functions in SQL, which have a lane of their own.
static REMEMBER_ID_IN_SQL: Sql =
    Sql { text: "SELECT semel.next_id(0, $1) WHERE $1 > 0", types: &[Type::INT8] };

static RAISE_EPOCH: Sql = Sql {
    text: "UPDATE semel.meta SET value = $1 WHERE name = 'epoch' AND value < $1",
    types: &[Type::INT8],
};

static RAISE_TOKENS: Sql = Sql {
    text: "SELECT setval('semel.token', $1, false) FROM semel.token WHERE last_value < $1",
    types: &[Type::INT8],
};

/// Jobs that are through.
static THROUGH: Sql = Sql {
    text: "SELECT coalesce(sum(unfinished + completed + dead + cancelled), 0)::bigint FROM semel.tally",
    types: &[],
};

/// Adds up the counts of all bites.
static FOLD_TALLIES: Sql = Sql {
    text: "WITH taken AS (DELETE FROM semel.tally RETURNING *)
           INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
           SELECT queue, sum(unfinished), sum(completed), sum(dead), sum(cancelled)
             FROM taken
            GROUP BY queue",
    types: &[],
};

/// The planner knows nothing of tables that were filled a moment ago, and would read all of one to find a row.
const ANALYZE: &str =
    "ANALYZE semel.queue, semel.job, semel.live, semel.done, semel.key, semel.trace, semel.record";

impl Move {
    /// Begins the move, unless it has begun.
    pub(super) async fn begin(&self) -> Result<Standing, StoreError> {
        let session = self.pool.session().await.map_err(|fault| not_opened(&fault))?;
        let locked = async {
            session.begin().await?;
            session.query(&LOCK, &[&locks::JOIN]).await?;
            session.query(&WAIT_FOR_OTHERS, &[]).await
        };
        locked.await.map_err(|fault| not_opened(&fault))?;
        let standing = match self.look(&session).await? {
            (Target::Empty, _) => {
                self.begin_in(&session).await.map_err(|fault| stopped(&fault))?;
                Standing::Begun
            }
            (Target::Begun, place) => {
                Standing::Under(place, through(&session).await.map_err(|fault| not_opened(&fault))?)
            }
            (Target::Moved, _) => Standing::Moved,
        };
        session.commit().await.map_err(|fault| stopped(&fault))?;
        Ok(standing)
    }

    /// How the database stands to this move. Changes nothing.
    pub(super) async fn survey(&self) -> Result<Target, StoreError> {
        let session = self.pool.session().await.map_err(|fault| not_opened(&fault))?;
        self.look(&session).await.map(|(target, _)| target)
    }

    async fn look(&self, link: &Link) -> Result<(Target, JobId), StoreError> {
        let marker = Marker::read(link).await.map_err(|fault| not_opened(&fault))?;
        let Some(marker) = marker else {
            require_empty(link).await?;
            return Ok((Target::Empty, JobId::ZERO));
        };
        marker.require(&self.holdings.origin)?;
        let target = if marker.finished_at.is_some() { Target::Moved } else { Target::Begun };
        Ok((target, marker.place))
    }

    /// Writes everything but the jobs.
    async fn begin_in(&self, session: &Session) -> Result<(), Fault> {
        let (queues, records) = (self.queues()?, records(&self.holdings));
        let (epoch, token) = next_epoch(self.holdings.epoch)?;
        let last_id = sql_id(self.holdings.last_id);
        let writes = apply::writes(&records, &self.rules, &[], Timestamp::default());
        let mut flight = Flight::on(session);
        flight.query(&ADD_QUEUES, queues.params());
        flight.query(&NUMBER_ON, vec![]);
        flight.query(&REMEMBER_ID, vec![&last_id]);
        flight.query(&REMEMBER_ID_IN_SQL, vec![&last_id]);
        flight.query(&RAISE_EPOCH, vec![&epoch]);
        flight.query(&RAISE_TOKENS, vec![&token]);
        writes.add_to(&mut flight);
        flight.land().await?;
        Marker::put(session, &self.holdings.origin).await
    }

    fn queues(&self) -> Result<QueueColumns, Fault> {
        let mut columns = QueueColumns::default();
        for KeptQueue { id, record, .. } in &self.holdings.queues {
            if i32::try_from(id.0).is_err() {
                return Err(Fault::Broken(format!(
                    "queue {} has number {}, which is too large",
                    record.name, id.0
                )));
            }
            columns.id.push(queue_number(*id));
            columns.name.push(record.name.to_string());
            columns.config.push(config_text(&record.config));
            columns.gate.push(gate_text(&record.gate));
            columns.secrets.push(secrets_text(&record.secrets));
            columns.created_at.push(sql_time(record.created_at));
            columns.free.push(is_free(&record.config, &record.gate));
            columns.paused.push(record.gate.paused);
        }
        Ok(columns)
    }

    /// All jobs are through: the store is made ready to be read.
    pub(super) async fn tidy(&self, watch: Watcher<'_>) -> Result<(), StoreError> {
        watch(Progress { step: "learning what is where", done: 0, total: 0 });
        let tidied = async {
            let session = self.pool.session().await?;
            session.execute(&FOLD_TALLIES, &[]).await?;
            session.script(ANALYZE).await
        };
        tidied.await.map_err(|fault| stopped(&fault))
    }

    /// Both sides are the same: the queues are shown, and nodes may join.
    pub(super) async fn finish(&self) -> Result<(), StoreError> {
        let shown: Vec<i32> = self.rules.keys().copied().collect();
        let finished = async { self.pool.session().await?.execute(&FINISH, &[&shown]).await };
        finished.await.map(drop).map_err(|fault| stopped(&fault))
    }
}

async fn require_empty(link: &Link) -> Result<(), StoreError> {
    let (content, nodes) = content(link).await.map_err(|fault| not_opened(&fault))?;
    if let Some(content) = content {
        return Err(StoreError::Open(format!(
            "the database has {content} in it already, which no move brought there: give one with an empty store"
        )));
    }
    if let Some(nodes) = nodes {
        return Err(StoreError::Open(format!(
            "a server works on the database ({nodes}): stop it first; if it is gone for good, take it off the list with \
             DELETE FROM semel.node"
        )));
    }
    Ok(())
}

async fn through(link: &Link) -> Result<u64, Fault> {
    let jobs: i64 = Cells::of(&link.query_one(&THROUGH, &[]).await?).take()?;
    Ok(u64::try_from(jobs).unwrap_or(0))
}

async fn content(link: &Link) -> Result<(Option<String>, Option<String>), Fault> {
    let made: bool = Cells::of(&link.query_one(&MADE, &[]).await?).take()?;
    if !made {
        return Ok((None, None));
    }
    let content = Cells::of(&link.query_one(&CONTENT, &[]).await?).take()?;
    let nodes = Cells::of(&link.query_one(&NODES, &[]).await?).take()?;
    Ok((content, nodes))
}

/// The epoch after all of the other store, and its first token.
fn next_epoch(before: u32) -> Result<(i64, i64), Fault> {
    let epoch = before.saturating_add(1);
    // A token is the epoch and forty bits more, in a bigint.
    if epoch >= 1 << 23 {
        return Err(Fault::Broken(format!("no epoch is left above {before}")));
    }
    Ok((i64::from(epoch), sql_token(Token::first(epoch).next())))
}

/// Schedules, API keys and replays, as if they had just been put.
fn records(holdings: &Holdings) -> Changes {
    Changes {
        schedules: holdings.schedules.iter().map(|r| (r.name.clone(), Some(r.clone()))).collect(),
        api_keys: holdings.api_keys.iter().map(|r| (r.id.clone(), Some(r.clone()))).collect(),
        replays: holdings.replays.iter().map(|r| (r.id.clone(), Some(r.clone()))).collect(),
        ..Changes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_on_above_those_of_the_other_store_as_long_as_there_are_any() {
        let above = |epoch: i64| (epoch, (epoch << 40) + 1);
        assert_eq!(next_epoch(0).unwrap(), above(1));
        assert_eq!(next_epoch(4100).unwrap(), above(4101));
        assert_eq!(next_epoch((1 << 23) - 2).unwrap(), above((1 << 23) - 1));
        for none_above in [(1 << 23) - 1, u32::MAX] {
            assert!(next_epoch(none_above).is_err(), "{none_above}");
        }
    }
}
