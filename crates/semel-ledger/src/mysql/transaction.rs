//! The transactional mode with `sqlx`.

use std::convert::Infallible;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Acquire, Connection, MySql, MySqlConnection, Transaction, query, query_as};

use super::SqlxMySql;
use super::failure::{failed, is_duplicate, is_taken};
use super::row::{self, Cells, of, unchanged, whole};
use super::statement::{BEGIN, CURRENT, READ, RECORD, REPLACE};
use crate::boundary::{Boundary, reach};
use crate::key::Scope;
use crate::rules::{Decision, Row, decide};
use crate::time::{Moment, millis};
use crate::transactional::{Begin, Begun, New, never, wish};
use crate::{Call, Error, Fingerprint, Ledger, StoreError, StoreErrorKind, Verdict};

impl Ledger<SqlxMySql> {
    /// Runs an effect in a transaction, and records its result in it. `connection` is a pool or a connection
    /// (`&pool`, `&mut connection`); the effect gets the connection of the transaction.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the commit | finds nothing, and runs the effect |
    /// | after the commit | gets the first result |
    ///
    /// On MariaDB a duplicate does not wait for the transaction of the first: it is [`Verdict::InProgress`] at once. On
    /// MySQL it waits for that one's end, `innodb_lock_wait_timeout` at most. An effect that fails is rolled back.
    pub async fn transact<'c, T, E, F>(
        &self,
        connection: impl Acquire<'c, Database = MySql> + Send,
        call: &Call,
        effect: F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut MySqlConnection) -> Result<T, E>,
    {
        self.around(call, || self.pursue(connection, call, effect)).await
    }

    async fn pursue<'c, T, E, F>(
        &self,
        connection: impl Acquire<'c, Database = MySql> + Send,
        call: &Call,
        effect: F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut MySqlConnection) -> Result<T, E>,
    {
        let connecting = async { connection.acquire().await.map_err(failed("connecting")) };
        let mut connection = self.patient(connecting).await?;
        let mut transaction = Connection::begin(&mut *connection).await.map_err(failed("beginning"))?;
        let entry = match self.begin(&mut transaction, call).await.map_err(never)? {
            Begin::New(entry) => entry,
            Begin::Answered(verdict) => return Ok(ended(transaction, verdict).await),
        };
        reach(Boundary::AfterClaim).await;
        let result = match effect(&mut transaction).await {
            Ok(result) => result,
            Err(error) => return Err(Error::Effect(ended(transaction, error).await)),
        };
        reach(Boundary::AfterEffect).await;
        let text = entry.text(&result)?;
        self.patient(recording(&entry, &mut transaction, &text)).await?;
        let commit = self.patient(async { Ok(transaction.commit().await) }).await;
        commit.map_err(Error::CommitUnknown)?.map_err(unconfirmed)?;
        entry.committed(&text);
        reach(Boundary::AfterRecord).await;
        Ok(Verdict::Applied(result))
    }

    /// Begins an effect in a transaction of the application's own: what follows is for [`Begin`] to say.
    ///
    /// ```no_run
    /// use semel_ledger::mysql::SqlxMySql;
    /// use semel_ledger::{Begin, Call, Ledger, Verdict};
    ///
    /// async fn handle(
    ///     ledger: &Ledger<SqlxMySql>,
    ///     pool: &sqlx::MySqlPool,
    ///     call: &Call,
    /// ) -> Result<Verdict<u64>, Box<dyn std::error::Error>> {
    ///     let mut transaction = pool.begin().await?;
    ///     match ledger.begin(&mut transaction, call).await? {
    ///         Begin::Answered(verdict) => Ok(verdict),
    ///         Begin::New(entry) => {
    ///             let insert = "INSERT INTO charge (amount) VALUES (10)";
    ///             let id = sqlx::query(insert).execute(&mut *transaction).await?.last_insert_id();
    ///             entry.record(&mut transaction, &id).await?;
    ///             transaction.commit().await?;
    ///             Ok(Verdict::Applied(id))
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn begin<'a, T>(
        &'a self,
        transaction: &mut MySqlConnection,
        call: &'a Call,
    ) -> Result<Begin<'a, SqlxMySql, T>, Error<Infallible>>
    where
        T: Serialize + DeserializeOwned,
    {
        let asked = Instant::now();
        let scope = self.scope_of(call);
        let answer = self.patient(asking(transaction, &scope, call)).await?;
        Begin::of(self, call, asked, answer)
    }
}

impl<T: Serialize> New<'_, SqlxMySql, T> {
    /// Records the result, in the transaction of the effect. If this fails, roll back.
    pub async fn record(
        self,
        transaction: &mut MySqlConnection,
        result: &T,
    ) -> Result<(), Error<Infallible>> {
        let text = self.text(result)?;
        Ok(recording(&self, transaction, &text).await?)
    }
}

/// Takes the entry's place, or says what is there. Whatever is found there is gone again only if it was pruned at this very
/// moment, so this does not go on for long.
async fn asking(connection: &mut MySqlConnection, scope: &Scope, call: &Call) -> Result<Begun, StoreError> {
    loop {
        let place = query(BEGIN).bind(call.token).bind(call.input.as_ref().map(Fingerprint::to_text));
        match of(place, scope).execute(&mut *connection).await {
            Ok(_) => return Ok(Begun::New),
            Err(error) if is_taken(&error) => return busy(connection, scope).await,
            Err(error) if is_duplicate(&error) => {}
            Err(error) => return Err(failed("beginning")(error)),
        }
        if let Some(cells) = read(connection, CURRENT, scope).await?
            && let (now, Some(row)) = row::read(cells)?
        {
            return found(connection, scope, call, now, row).await;
        }
    }
}

/// There is an entry: it answers, unless it has expired or was begun by a transaction that never recorded a result.
async fn found(
    connection: &mut MySqlConnection,
    scope: &Scope,
    call: &Call,
    now: Moment,
    row: Row,
) -> Result<Begun, StoreError> {
    let empty = row.done.is_none() && row.owner.as_str().is_empty();
    match decide(Some(&row).filter(|_| !empty), &wish(scope.clone(), call), now) {
        Decision::Answer(answer) => Ok(Begun::Answered(answer)),
        Decision::Write(new, _) => {
            let place = Row { until: now, expires: None, ..new };
            let replaced =
                unchanged(whole(query(REPLACE), &place, scope), &row).execute(&mut *connection).await;
            match replaced {
                Ok(_) => Ok(Begun::New),
                Err(error) if is_taken(&error) => busy(connection, scope).await,
                Err(error) => Err(failed("beginning")(error)),
            }
        }
    }
}

/// Another transaction is at it.
async fn busy(connection: &mut MySqlConnection, scope: &Scope) -> Result<Begun, StoreError> {
    let cells = read(connection, READ, scope).await?;
    let missing = || StoreError::new(StoreErrorKind::Corrupt, "the server does not know the time");
    let (now, _) = row::read(cells.ok_or_else(missing)?)?;
    Ok(Begun::busy(now))
}

async fn read(
    connection: &mut MySqlConnection,
    statement: &'static str,
    scope: &Scope,
) -> Result<Option<Cells>, StoreError> {
    let question = query_as(statement)
        .bind(scope.consumer.as_str().as_bytes())
        .bind(scope.key.as_str().as_bytes())
        .bind(scope.step.as_str().as_bytes());
    question.fetch_optional(connection).await.map_err(failed("beginning"))
}

async fn recording<T>(
    entry: &New<'_, SqlxMySql, T>,
    connection: &mut MySqlConnection,
    text: &str,
) -> Result<(), StoreError> {
    let statement = query(RECORD).bind(millis(entry.ledger.inner.ttl)).bind(text.to_owned());
    let recorded = of(statement, &entry.scope).execute(connection).await.map_err(failed("recording"))?;
    if recorded.rows_affected() == 1 {
        return Ok(());
    }
    let message =
        "the place that the effect took is gone: it was not recorded in the transaction in which it began";
    Err(StoreError::new(StoreErrorKind::Corrupt, message))
}

/// Ends a transaction that comes to nothing, now and not when its connection is next used: others wait for its locks. That
/// it cannot be rolled back means that its connection is gone, and its locks with it.
async fn ended<T>(transaction: Transaction<'_, MySql>, answer: T) -> T {
    drop(transaction.rollback().await);
    answer
}

/// A commit that failed. If the server says so itself, nothing was committed; otherwise nobody knows.
fn unconfirmed<E>(error: sqlx::Error) -> Error<E> {
    let error = failed("committing")(error);
    match error.kind() {
        StoreErrorKind::Refused => Error::Store(error),
        _ => Error::CommitUnknown(error),
    }
}
