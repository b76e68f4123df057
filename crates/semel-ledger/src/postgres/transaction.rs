//! The transactional mode with `tokio-postgres`.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient, SimpleQueryMessage};

use super::answer::{begun, kept, outrun};
use super::literal::{number, text};
use super::state::{kind, taken};
use super::statement::{BEGIN, RECORD};
use super::tokio_postgres::{Clients, Texts, TokioPostgres, cell, failed};
use crate::boundary::{Boundary, reach};
use crate::key::Scope;
use crate::time::millis;
use crate::transactional::{Begin, Begun, New, never};
use crate::{Call, Error, Fingerprint, Ledger, StoreError, StoreErrorKind, Verdict};

/// A transaction that the ledger has begun and will commit. It can do whatever a client can; it must not commit or roll
/// back by itself.
pub struct Transaction<'a> {
    client: &'a Client,
    open: bool,
}

impl Deref for Transaction<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // One look at the future sends the statement; its answer is nobody's business. Whatever the connection is used
            // for next comes after it.
            let mut context = Context::from_waker(Waker::noop());
            let sent = pin!(self.client.batch_execute("ROLLBACK")).poll(&mut context);
            drop(sent);
        }
    }
}

impl<C: Clients> Ledger<TokioPostgres<C>> {
    /// Runs an effect in a transaction on `client`, and records its result in it.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the commit | finds nothing, and runs the effect |
    /// | after the commit | gets the first result |
    ///
    /// A duplicate does not wait for the transaction of the first: it is [`Verdict::InProgress`] at once. An effect that
    /// fails is rolled back. The beginning travels with `BEGIN` and the record with `COMMIT`, as one message each: the
    /// ledger adds no round trip, and needs no prepared statement.
    pub async fn transact<T, E, F>(
        &self,
        client: &mut Client,
        call: &Call,
        effect: F,
    ) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, E>,
    {
        self.around(call, || self.pursue(client, call, effect)).await
    }

    async fn pursue<T, E, F>(&self, client: &Client, call: &Call, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, E>,
    {
        let mut transaction = Transaction { client, open: true };
        let entry = match self.opened(client, call).await? {
            Begin::New(entry) => entry,
            Begin::Answered(verdict) => return Ok(verdict),
        };
        reach(Boundary::AfterClaim).await;
        let result = effect(&transaction).await.map_err(Error::Effect)?;
        reach(Boundary::AfterEffect).await;
        let text = entry.text(&result)?;
        let end = end(&entry, &text);
        let committed = self.patient(async { Ok(client.batch_execute(&end).await) }).await;
        match committed.map_err(Error::CommitUnknown)? {
            Ok(()) => transaction.open = false,
            Err(error) if is_taken(&error) => {
                drop(transaction);
                return self.outrun(client, call).await;
            }
            Err(error) => return Err(unconfirmed(error)),
        }
        entry.committed(&text);
        reach(Boundary::AfterRecord).await;
        Ok(Verdict::Applied(result))
    }

    /// Begins the transaction and the effect, in one message.
    async fn opened<'a, T, E>(
        &'a self,
        client: &Client,
        call: &'a Call,
    ) -> Result<Begin<'a, TokioPostgres<C>, T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let asked = Instant::now();
        let start = start(&self.scope_of(call), call)?;
        let answers = async { client.simple_query(&start).await.map_err(failed("beginning")) };
        let answers = self.patient(answers).await?;
        let row = answers.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let answer = row.ok_or_else(unanswered)?.try_get(0).map_err(failed("beginning"))?;
        Begin::of(self, call, asked, begun(answer)?)
    }

    /// Another transaction recorded the key while this one worked on it, and this one was rolled back.
    async fn outrun<T: Serialize + DeserializeOwned, E>(
        &self,
        client: &Client,
        call: &Call,
    ) -> Result<Verdict<T>, Error<E>> {
        match self.begin(client, call).await.map_err(never)? {
            Begin::Answered(verdict) => Ok(verdict),
            Begin::New(_) => Err(outrun()),
        }
    }

    /// Begins an effect in a transaction of the application's own, at `READ COMMITTED` or above: what follows is for
    /// [`Begin`] to say.
    ///
    /// ```no_run
    /// use semel_ledger::postgres::{Clients, TokioPostgres};
    /// use semel_ledger::{Begin, Call, Ledger, Verdict};
    ///
    /// async fn handle<C: Clients>(
    ///     ledger: &Ledger<TokioPostgres<C>>,
    ///     client: &mut tokio_postgres::Client,
    ///     call: &Call,
    /// ) -> Result<Verdict<i64>, Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     match ledger.begin(&transaction, call).await? {
    ///         Begin::Answered(verdict) => Ok(verdict),
    ///         Begin::New(entry) => {
    ///             let row = transaction.query_one("INSERT INTO charge DEFAULT VALUES RETURNING id", &[]).await?;
    ///             let id = row.get(0);
    ///             entry.record(&transaction, &id).await?;
    ///             transaction.commit().await?;
    ///             Ok(Verdict::Applied(id))
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn begin<'a, T>(
        &'a self,
        transaction: &impl GenericClient,
        call: &'a Call,
    ) -> Result<Begin<'a, TokioPostgres<C>, T>, Error<Infallible>>
    where
        T: Serialize + DeserializeOwned,
    {
        let asked = Instant::now();
        let scope = self.scope_of(call);
        let answer = self.patient(asking(transaction, &scope, call)).await?;
        Begin::of(self, call, asked, answer)
    }
}

impl<C: Clients, T: Serialize> New<'_, TokioPostgres<C>, T> {
    /// Records the result, in the transaction of the effect. If this fails, roll back.
    pub async fn record(self, transaction: &impl GenericClient, result: &T) -> Result<(), Error<Infallible>> {
        let text = self.text(result)?;
        let recorded = recording(&self, transaction, &text).await;
        recorded.map_err(|error| Error::Store(failed("recording")(error)))
    }
}

async fn asking(client: &impl GenericClient, scope: &Scope, call: &Call) -> Result<Begun, StoreError> {
    let (scope, fence) = (Texts::of(scope), kept(call.token)?);
    let fingerprint = call.input.as_ref().map(Fingerprint::to_text);
    let params = [
        (&scope.consumer as _, Type::TEXT),
        (&scope.key as _, Type::TEXT),
        (&scope.step as _, Type::TEXT),
        (&fence as _, Type::INT8),
        (&fingerprint as _, Type::TEXT),
    ];
    let rows = client.query_typed(BEGIN, &params).await.map_err(failed("beginning"))?;
    let row = rows.first().ok_or_else(unanswered)?;
    let answer: Option<String> = cell(row, 0)?;
    begun(answer.as_deref())
}

async fn recording<C: Clients, T>(
    entry: &New<'_, TokioPostgres<C>, T>,
    client: &impl GenericClient,
    text: &str,
) -> Result<(), tokio_postgres::Error> {
    let scope = Texts::of(&entry.scope);
    // A token that cannot be kept was refused when the effect began.
    let fence = entry.call.token.and_then(|token| i64::try_from(token).ok());
    let fingerprint = entry.call.input.as_ref().map(Fingerprint::to_text);
    let ttl = millis(entry.ledger.inner.ttl);
    let params = [
        (&scope.consumer as _, Type::TEXT),
        (&scope.key as _, Type::TEXT),
        (&scope.step as _, Type::TEXT),
        (&fence as _, Type::INT8),
        (&fingerprint as _, Type::TEXT),
        (&text as _, Type::TEXT),
        (&ttl as _, Type::INT8),
    ];
    client.query_typed(RECORD, &params).await.map(drop)
}

/// `BEGIN` and what [`asking`] asks.
fn start(scope: &Scope, call: &Call) -> Result<String, StoreError> {
    let fingerprint = call.input.as_ref().map(Fingerprint::to_text);
    Ok(format!(
        "BEGIN; CALL semel_ledger.open({}, {}, {}, {}, {}, NULL)",
        text(scope.consumer.as_str()),
        text(scope.key.as_str()),
        text(scope.step.as_str()),
        number(kept(call.token)?),
        fingerprint.as_deref().map_or_else(|| "NULL".into(), text),
    ))
}

/// What [`recording`] records, and `COMMIT`. If the record fails, the commit is not reached.
fn end<C: Clients, T>(entry: &New<'_, TokioPostgres<C>, T>, result: &str) -> String {
    let (scope, fingerprint) = (&entry.scope, entry.call.input.as_ref().map(Fingerprint::to_text));
    // A token that cannot be kept was refused when the effect began.
    let fence = entry.call.token.and_then(|token| i64::try_from(token).ok());
    format!(
        "CALL semel_ledger.record({}, {}, {}, {}, {}, {}, {}); COMMIT",
        text(scope.consumer.as_str()),
        text(scope.key.as_str()),
        text(scope.step.as_str()),
        number(fence),
        fingerprint.as_deref().map_or_else(|| "NULL".into(), text),
        text(result),
        number(Some(millis(entry.ledger.inner.ttl))),
    )
}

/// No row at all is not the null that says "new".
fn unanswered() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "beginning: no answer")
}

fn is_taken(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| taken(error.code().code(), error.schema()))
}

/// A record or a commit, which travel together, that failed. The server says so itself, of a deferred constraint for
/// example: then nothing was committed. Otherwise nobody knows.
fn unconfirmed<E>(error: tokio_postgres::Error) -> Error<E> {
    let refused = error.code().is_some_and(|state| kind(state.code()) == StoreErrorKind::Refused);
    let error = failed("committing")(error);
    if refused { Error::Store(error) } else { Error::CommitUnknown(error) }
}
