//! The outbox in SQLite.
//!
//! SQLite has one writer, and a relay must not be it while it waits for the network. So rows are claimed by a lock beside the
//! database, which the system takes back from a process that died: relays take turns, and the application waits only for
//! the moment in which rows are deleted.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::row::{Refused, Row};
use super::source::{Claim, News, Source};
use super::{Dead, Depth, Error};
use crate::schema;

/// How long another writer is waited for.
const BUSY: Duration = Duration::from_secs(10);

/// How long to wait before another relay's turn may be over.
const TURN: Duration = Duration::from_millis(20);

const DEAD: &str = "
    SELECT o.id, o.queue, o.idempotency_key, o.job_group, o.dead_at, o.dead_code, o.dead_reason,
           (SELECT count(*) FROM semel_outbox AS b
            WHERE b.queue = o.queue AND b.job_group = o.job_group AND b.id > o.id)
    FROM semel_outbox AS o
    WHERE o.dead_at IS NOT NULL
    ORDER BY o.id
    LIMIT ?1";

const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// The database, on threads where waiting is allowed.
#[derive(Clone)]
struct Shared(Arc<Mutex<Connection>>);

pub(super) struct Sqlite {
    database: Shared,
    /// Whoever holds its lock has the turn.
    turn: PathBuf,
}

impl Sqlite {
    pub(super) fn open(address: &str) -> Result<Self, Error> {
        let path = address.trim_start_matches("sqlite:").trim_start_matches("//");
        if path.is_empty() || path == ":memory:" {
            return Err(Error::Address(
                "the address of an SQLite database is sqlite: and the path of its file".into(),
            ));
        }
        let opened = Connection::open(path).and_then(|database| {
            database.busy_timeout(BUSY)?;
            Ok(database)
        });
        let database = opened.map_err(Error::database("open the database"))?;
        Ok(Self { database: Shared(Arc::new(Mutex::new(database))), turn: format!("{path}-relay").into() })
    }

    /// Waits for the turn.
    async fn turn(&self) -> Result<File, Error> {
        let wrong = Error::database("take the relays' lock beside the database");
        let file =
            File::options().create(true).truncate(false).write(true).open(&self.turn).map_err(&wrong)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(TURN).await,
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
            }
        }
    }
}

impl Shared {
    async fn with<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = self.clone();
        let worked = tokio::task::spawn_blocking(move || work(&mut shared.lock())).await;
        worked.map_err(|error| Error::Task(error.to_string()))?.map_err(Error::database(what))
    }

    /// A transaction that was under way when a panic happened has been rolled back.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for Sqlite {
    async fn claim(&self, limit: u32, held: &[String]) -> Result<Box<dyn Claim>, Error> {
        let turn = self.turn().await?;
        let held = held.to_vec();
        let rows =
            self.database.with("claim rows of semel_outbox", move |database| claim(database, limit, held));
        Ok(Box::new(Claimed { database: self.database.clone(), rows: rows.await?, _turn: turn }))
    }

    /// Nobody announces anything here.
    fn news(&self) -> News {
        News(None)
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let counted = self.database.with("count rows of semel_outbox", |database| {
            database.query_one(Depth::COUNT, [], |row| Ok((row.get(0)?, row.get(1)?)))
        });
        counted.await.map(Depth::of)
    }

    async fn dead(&self, limit: u32) -> Result<Vec<Dead>, Error> {
        let read = |row: &rusqlite::Row<'_>| {
            let columns = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let (id, queue, key, group) = columns;
            Ok(Dead::of((id, queue, key, group, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?)))
        };
        let found = self.database.with("read dead rows of semel_outbox", move |database| {
            database.prepare_cached(DEAD)?.query_map([limit], read)?.collect()
        });
        found.await
    }

    async fn retry(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        let update = "UPDATE semel_outbox SET dead_at = NULL, dead_code = NULL, dead_reason = NULL";
        change_dead(&self.database, "have dead rows tried again", update, ids).await
    }

    async fn discard(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        change_dead(&self.database, "discard dead rows", "DELETE FROM semel_outbox", ids).await
    }

    async fn ensure_schema(&self) -> Result<(), Error> {
        self.database
            .with("make the table semel_outbox", |database| database.execute_batch(schema::SQLITE))
            .await
    }
}

fn claim(database: &Connection, limit: u32, held: Vec<String>) -> Result<Vec<Row>, rusqlite::Error> {
    let marks = vec!["?"; held.len()].join(", ");
    let claim = format!(
        "SELECT o.id, o.queue, o.idempotency_key, o.job_group, o.payload, o.options
         FROM semel_outbox AS o
         WHERE o.dead_at IS NULL
           AND o.queue NOT IN ({marks})
           AND (o.job_group IS NULL OR NOT EXISTS (
                 SELECT 1
                 FROM semel_outbox AS b
                 WHERE b.dead_at IS NOT NULL
                   AND b.queue = o.queue
                   AND b.job_group = o.job_group
                   AND b.id < o.id))
         ORDER BY o.id
         LIMIT ?"
    );
    let values = held.into_iter().map(Value::from).chain([Value::from(limit)]);
    let mut claim = database.prepare_cached(&claim)?;
    let rows = claim.query_map(params_from_iter(values), |row| {
        Ok(Row::of((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))
    })?;
    rows.collect()
}

/// Changes dead rows, all or these.
async fn change_dead(
    database: &Shared,
    what: &'static str,
    change: &'static str,
    ids: Option<&[i64]>,
) -> Result<u64, Error> {
    let ids = ids.map(<[i64]>::to_vec);
    let change = move |database: &mut Connection| {
        let transaction = database.transaction()?;
        let changed = match ids {
            None => transaction.execute(&format!("{change} WHERE dead_at IS NOT NULL"), [])?,
            Some(ids) => {
                let mut one =
                    transaction.prepare(&format!("{change} WHERE dead_at IS NOT NULL AND id = ?1"))?;
                ids.iter().try_fold(0, |sum, id| Ok::<_, rusqlite::Error>(sum + one.execute([id])?))?
            }
        };
        transaction.commit()?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    };
    database.with(what, change).await
}

struct Claimed {
    database: Shared,
    rows: Vec<Row>,
    /// Given back when the claim is.
    _turn: File,
}

#[async_trait]
impl Claim for Claimed {
    fn rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    async fn settle(self: Box<Self>, carried: Vec<i64>, refused: Vec<(i64, Refused)>) -> Result<(), Error> {
        let settle = move |database: &mut Connection| {
            let transaction = database.transaction()?;
            {
                let mut delete = transaction.prepare_cached("DELETE FROM semel_outbox WHERE id = ?1")?;
                carried.iter().try_for_each(|id| delete.execute([id]).map(drop))?;
                let refuse = format!(
                    "UPDATE semel_outbox SET dead_at = {NOW}, dead_code = ?2, dead_reason = ?3 WHERE id = ?1"
                );
                let mut refuse = transaction.prepare_cached(&refuse)?;
                for (id, Refused { code, reason }) in &refused {
                    refuse.execute(params![id, code, reason])?;
                }
            }
            transaction.commit()
        };
        self.database.with("settle rows of semel_outbox", settle).await
    }
}
