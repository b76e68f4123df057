//! The store: one connection, used from blocking threads.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::MIGRATIONS;
use super::rows::{clock, failed, read, remove, write};
use crate::key::Scope;
use crate::rules::{Decision, Row, decide};
use crate::schema::newer;
use crate::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use crate::time::{Moment, Until};
use crate::{StoreError, StoreErrorKind};

const PRUNE: &str = include_str!("../../../../ledger/sqlite/prune.sql");

/// How long to wait for another process's write. Writes take milliseconds; whoever holds one for longer than this is busy
/// with something else.
const BUSY: Duration = Duration::from_secs(5);

/// A ledger in an SQLite database.
#[derive(Clone)]
pub struct Sqlite {
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the application's database, with a write-ahead log that is synced at every commit: what was answered survives
    /// a power cut.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(failed("opening"))?;
        let set = |connection: &Connection| {
            connection.busy_timeout(BUSY)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")
        };
        set(&connection).map_err(failed("opening"))?;
        Ok(Self::new(connection))
    }

    /// Uses a connection that is set up already.
    pub fn new(connection: Connection) -> Self {
        Self { connection: Arc::new(Mutex::new(connection)) }
    }

    pub(super) async fn connection(&self) -> OwnedMutexGuard<Connection> {
        self.connection.clone().lock_owned().await
    }

    /// Runs `act` in a transaction that nobody else writes beside.
    async fn alone<T, F>(&self, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let mut connection = self.connection().await;
        blocking(move || {
            let begin = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let transaction = begin.map_err(failed("beginning"))?;
            let answer = act(&transaction)?;
            transaction.commit().map_err(failed("committing"))?;
            Ok(answer)
        })
        .await
    }

    /// Runs `act` on the holder's entry, if it still is the holder's. It changes the row, or takes it away.
    async fn held<T, F>(&self, holder: &Holder, act: F) -> Result<Hold<T>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Row, Moment) -> Held<T> + Send + 'static,
    {
        let holder = holder.clone();
        self.alone(move |connection| {
            let (found, now) = (read(connection, &holder.scope)?, clock(connection)?);
            let ours = |row: &Row| row.lives(now) && row.is_of(&holder.owner, holder.token);
            let Some(mut row) = found.filter(ours) else { return Ok(Hold::Lost) };
            match act(&mut row, now) {
                Held::Write(answer) => write(connection, &holder.scope, &row).map(|()| Hold::Held(answer)),
                Held::Remove(answer) => remove(connection, &holder.scope).map(|()| Hold::Held(answer)),
                Held::Nothing(answer) => Ok(Hold::Held(answer)),
                Held::Lost => Ok(Hold::Lost),
            }
        })
        .await
    }
}

/// What is to be done with a row.
enum Held<T> {
    Write(T),
    Remove(T),
    Nothing(T),
    Lost,
}

#[async_trait]
impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        self.alone(|connection| {
            for migration in &MIGRATIONS[version(connection)?..] {
                connection.execute_batch(migration).map_err(failed("making the schema"))?;
            }
            Ok(())
        })
        .await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let claim = claim.clone();
        self.alone(move |connection| {
            let (row, now) = (read(connection, &claim.scope)?, clock(connection)?);
            match decide(row.as_ref(), &claim, now) {
                Decision::Write(row, answer) => write(connection, &claim.scope, &row).map(|()| answer),
                Decision::Answer(answer) => Ok(answer),
            }
        })
        .await
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        let renew = move |row: &mut Row, now: Moment| {
            if row.done.is_some() {
                return Held::Lost;
            }
            row.until = now.after(lease);
            row.expires = row.expires.map(|expires| expires.max(row.until));
            Held::Write(Until::seen(row.until, now))
        };
        self.held(holder, renew).await
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        let result = result.to_owned();
        let complete = move |row: &mut Row, now: Moment| {
            if row.done.is_some() {
                return Held::Nothing(());
            }
            (row.done, row.expires, row.result) = (Some(now), Some(now.after(ttl)), Some(result));
            Held::Write(())
        };
        self.held(holder, complete).await
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let release = move |row: &mut Row, now: Moment| match release {
            _ if row.done.is_some() => Held::Lost,
            Release::Forget => Held::Remove(()),
            Release::Recover => {
                row.until = row.until.min(now);
                Held::Write(())
            }
        };
        self.held(holder, release).await
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let scopes = scopes.to_vec();
        self.alone(move |connection| {
            let now = clock(connection)?;
            let mark = |scope: &Scope| {
                let first = !read(connection, scope)?.is_some_and(|row| row.lives(now));
                if first {
                    write(connection, scope, &Row::marked(now, ttl))?;
                }
                Ok(first)
            };
            scopes.iter().map(mark).collect()
        })
        .await
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        let (connection, scopes) = (self.connection().await, scopes.to_vec());
        blocking(move || {
            let now = clock(&connection)?;
            let record = |scope: &Scope| {
                let row = read(&connection, scope)?.filter(|row| row.lives(now));
                Ok(row.map(|row| row.record(now)))
            };
            scopes.iter().map(record).collect()
        })
        .await
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        self.alone(move |connection| {
            let now = clock(connection)?;
            let gone =
                connection.execute(PRUNE, params![now.as_millis(), limit]).map_err(failed("pruning"))?;
            Ok(u32::try_from(gone).unwrap_or(u32::MAX))
        })
        .await
    }
}

/// How many migrations the database has.
fn version(connection: &Connection) -> Result<usize, StoreError> {
    let failed = failed("reading the schema's version");
    if !connection.table_exists(None, "semel_ledger_migration").map_err(&failed)? {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM semel_ledger_migration";
    newer(connection.query_row(version, [], |row| row.get(0)).map_err(failed)?, MIGRATIONS.len())
}

/// Runs `act` where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = |error| StoreError::caused(StoreErrorKind::Unavailable, "a blocking thread ended", error);
    tokio::task::spawn_blocking(act).await.map_err(ended)?
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}
