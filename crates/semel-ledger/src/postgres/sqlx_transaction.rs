//! The transactional mode with `sqlx`.

use std::convert::Infallible;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgDatabaseError;
use sqlx::{Acquire, Connection, PgConnection, Postgres, query, query_scalar};

use super::answer::{begun, kept, outrun};
use super::sqlx::{SqlxPostgres, failed};
use super::state::{kind, taken};
use super::statement::{BEGIN, RECORD};
use crate::boundary::{Boundary, reach};
use crate::key::Scope;
use crate::time::millis;
use crate::transactional::{Begin, Begun, New, never};
use crate::{Call, Error, Fingerprint, Ledger, StoreError, StoreErrorKind, Verdict};

impl Ledger<SqlxPostgres> {
    /// Runs an effect in a transaction, and records its result in it. `connection` is a pool or a connection
    /// (`&pool`, `&mut connection`); the effect gets the connection of the transaction.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the commit | finds nothing, and runs the effect |
    /// | after the commit | gets the first result |
    ///
    /// A duplicate does not wait for the transaction of the first: it is [`Verdict::InProgress`] at once. An effect that
    /// fails is rolled back.
    pub async fn transact<'c, T, E, F>(
        &self,
        connection: impl Acquire<'c, Database = Postgres> + Send,
        call: &Call,
        effect: F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    {
        self.around(call, || self.pursue(connection, call, effect)).await
    }

    async fn pursue<'c, T, E, F>(
        &self,
        connection: impl Acquire<'c, Database = Postgres> + Send,
        call: &Call,
        effect: F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    {
        let connecting = async { connection.acquire().await.map_err(failed("connecting")) };
        let mut connection = self.patient(connecting).await?;
        let begin = Connection::begin(&mut *connection).await;
        let mut transaction = begin.map_err(|error| Error::Store(failed("beginning")(error)))?;
        let entry = match self.begin(&mut transaction, call).await.map_err(never)? {
            Begin::New(entry) => entry,
            Begin::Answered(verdict) => return Ok(verdict),
        };
        reach(Boundary::AfterClaim).await;
        let result = effect(&mut transaction).await.map_err(Error::Effect)?;
        reach(Boundary::AfterEffect).await;
        let text = entry.text(&result)?;
        match recording(&entry, &mut transaction, &text).await {
            Ok(()) => {}
            Err(error) if is_taken(&error) => {
                transaction.rollback().await.map_err(|error| Error::Store(failed("rolling back")(error)))?;
                return self.outrun(&mut connection, call).await;
            }
            Err(error) => return Err(Error::Store(failed("recording")(error))),
        }
        let commit = self.patient(async { Ok(transaction.commit().await) }).await;
        commit.map_err(Error::CommitUnknown)?.map_err(unconfirmed)?;
        entry.committed(&text);
        reach(Boundary::AfterRecord).await;
        Ok(Verdict::Applied(result))
    }

    /// Another transaction recorded the key while this one worked on it, and this one was rolled back.
    async fn outrun<T: Serialize + DeserializeOwned, E>(
        &self,
        connection: &mut PgConnection,
        call: &Call,
    ) -> Result<Verdict<T>, Error<E>> {
        match self.begin(connection, call).await.map_err(never)? {
            Begin::Answered(verdict) => Ok(verdict),
            Begin::New(_) => Err(outrun()),
        }
    }

    /// Begins an effect in a transaction of the application's own, at `READ COMMITTED` or above: what follows is for
    /// [`Begin`] to say.
    ///
    /// ```no_run
    /// use semel_ledger::postgres::SqlxPostgres;
    /// use semel_ledger::{Begin, Call, Ledger, Verdict};
    ///
    /// async fn handle(
    ///     ledger: &Ledger<SqlxPostgres>,
    ///     pool: &sqlx::PgPool,
    ///     call: &Call,
    /// ) -> Result<Verdict<i64>, Box<dyn std::error::Error>> {
    ///     let mut transaction = pool.begin().await?;
    ///     match ledger.begin(&mut transaction, call).await? {
    ///         Begin::Answered(verdict) => Ok(verdict),
    ///         Begin::New(entry) => {
    ///             let insert = "INSERT INTO charge DEFAULT VALUES RETURNING id";
    ///             let id = sqlx::query_scalar(insert).fetch_one(&mut *transaction).await?;
    ///             entry.record(&mut transaction, &id).await?;
    ///             transaction.commit().await?;
    ///             Ok(Verdict::Applied(id))
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn begin<'a, T>(
        &'a self,
        transaction: &mut PgConnection,
        call: &'a Call,
    ) -> Result<Begin<'a, SqlxPostgres, T>, Error<Infallible>>
    where
        T: Serialize + DeserializeOwned,
    {
        let asked = Instant::now();
        let scope = self.scope_of(call);
        let answer = self.patient(asking(transaction, &scope, call)).await?;
        Begin::of(self, call, asked, answer)
    }
}

impl<T: Serialize> New<'_, SqlxPostgres, T> {
    /// Records the result, in the transaction of the effect. If this fails, roll back.
    pub async fn record(self, transaction: &mut PgConnection, result: &T) -> Result<(), Error<Infallible>> {
        let text = self.text(result)?;
        let recorded = recording(&self, transaction, &text).await;
        recorded.map_err(|error| Error::Store(failed("recording")(error)))
    }
}

async fn asking(connection: &mut PgConnection, scope: &Scope, call: &Call) -> Result<Begun, StoreError> {
    let question = query_scalar::<_, Option<String>>(BEGIN)
        .bind(scope.consumer.as_str())
        .bind(scope.key.as_str())
        .bind(scope.step.as_str())
        .bind(kept(call.token)?)
        .bind(call.input.as_ref().map(Fingerprint::to_text));
    begun(question.fetch_one(connection).await.map_err(failed("beginning"))?.as_deref())
}

async fn recording<T>(
    entry: &New<'_, SqlxPostgres, T>,
    connection: &mut PgConnection,
    text: &str,
) -> Result<(), sqlx::Error> {
    let statement = query(RECORD)
        .bind(entry.scope.consumer.as_str())
        .bind(entry.scope.key.as_str())
        .bind(entry.scope.step.as_str())
        // A token that cannot be kept was refused when the effect began.
        .bind(entry.call.token.and_then(|token| i64::try_from(token).ok()))
        .bind(entry.call.input.as_ref().map(Fingerprint::to_text))
        .bind(text)
        .bind(millis(entry.ledger.inner.ttl));
    statement.execute(connection).await.map(drop)
}

fn said(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn is_taken(error: &sqlx::Error) -> bool {
    said(error).is_some_and(|error| taken(error.code(), error.schema()))
}

/// A commit that failed. The server says so itself, of a deferred constraint for example: then nothing was committed.
/// Otherwise nobody knows.
fn unconfirmed<E>(error: sqlx::Error) -> Error<E> {
    let refused = said(&error).is_some_and(|error| kind(error.code()) == StoreErrorKind::Refused);
    let error = failed("committing")(error);
    if refused { Error::Store(error) } else { Error::CommitUnknown(error) }
}
