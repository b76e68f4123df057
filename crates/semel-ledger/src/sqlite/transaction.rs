//! The transactional mode with `rusqlite`.

use std::convert::Infallible;
use std::time::Instant;

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedMutexGuard;

use super::rows::{clock, failed, is_busy, kept, names, read, remove};
use super::store::{Sqlite, blocking};
use crate::boundary::{Boundary, reach};
use crate::key::Scope;
use crate::rules::{Decision, decide};
use crate::store::Claim;
use crate::transactional::{Begin, Begun, New, wish};
use crate::{Call, Error, Fingerprint, Ledger, StoreError, Verdict};

const RECORD: &str = include_str!("../../../../ledger/sqlite/record.sql");

/// A connection with a transaction on it, which is rolled back unless it was committed.
struct Open {
    connection: OwnedMutexGuard<Connection>,
    committed: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.committed && !self.connection.is_autocommit() {
            // If even this fails, SQLite rolls back by itself before anything else can be written.
            drop(self.connection.execute_batch("ROLLBACK"));
        }
    }
}

impl Ledger<Sqlite> {
    /// Runs an effect in a transaction on the store's own connection, and records its result in it. The effect runs on a
    /// thread that may block; it must not commit or roll back.
    ///
    /// | the worker dies | the next delivery |
    /// |---|---|
    /// | before the commit | finds nothing, and runs the effect |
    /// | after the commit | gets the first result |
    ///
    /// SQLite has one writer at a time. Whoever finds the database locked for longer than its busy time-out is
    /// [`Verdict::InProgress`]. An effect that fails is rolled back.
    pub async fn transact<T, E, F>(&self, call: &Call, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        self.around(call, || self.pursue(call, effect)).await
    }

    async fn pursue<T, E, F>(&self, call: &Call, effect: F) -> Result<Verdict<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let asked = Instant::now();
        let (open, answer) = self.opened(call).await?;
        let entry = match Begin::of(self, call, asked, answer)? {
            Begin::New(entry) => entry,
            Begin::Answered(verdict) => return Ok(verdict),
        };
        reach(Boundary::AfterClaim).await;
        // A block each: between them this delivery can be dropped, and the transaction with it.
        let (result, open) = blocking(move || Ok((effect(&open.connection), open))).await?;
        let result = result.map_err(Error::Effect)?;
        reach(Boundary::AfterEffect).await;
        let text = entry.text(&result)?;
        let recorded = entry.recorded(text.clone())?;
        blocking(move || committed(open, &recorded)).await?;
        entry.committed(&text);
        reach(Boundary::AfterRecord).await;
        Ok(Verdict::Applied(result))
    }

    async fn opened(&self, call: &Call) -> Result<(Open, Begun), StoreError> {
        let connection = self.inner.store.connection().await;
        let claim = wish(self.scope_of(call), call);
        blocking(move || {
            let open = Open { connection, committed: false };
            let begun = match open.connection.execute_batch("BEGIN IMMEDIATE") {
                Ok(()) => begun(&open.connection, &claim)?,
                Err(error) if is_busy(&error) => Begun::busy(clock(&open.connection)?),
                Err(error) => return Err(failed("beginning")(error)),
            };
            Ok((open, begun))
        })
        .await
    }

    /// Begins an effect in a transaction of the application's own, which must have been begun `IMMEDIATE`: what follows is
    /// for [`Begin`] to say.
    ///
    /// ```
    /// use semel_ledger::sqlite::Sqlite;
    /// use semel_ledger::{Begin, Call, Ledger, Verdict};
    ///
    /// fn handle(
    ///     ledger: &Ledger<Sqlite>,
    ///     connection: &mut rusqlite::Connection,
    ///     call: &Call,
    /// ) -> Result<Verdict<i64>, Box<dyn std::error::Error>> {
    ///     let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    ///     match ledger.begin(&transaction, call)? {
    ///         Begin::Answered(verdict) => Ok(verdict),
    ///         Begin::New(entry) => {
    ///             transaction.execute("INSERT INTO charge (amount) VALUES (10)", [])?;
    ///             let id = transaction.last_insert_rowid();
    ///             entry.record(&transaction, &id)?;
    ///             transaction.commit()?;
    ///             Ok(Verdict::Applied(id))
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("app.db");
    /// let ledger = Ledger::builder(Sqlite::open(&path)?, "billing").build()?;
    /// ledger.ensure_schema().await?;
    /// let mut connection = rusqlite::Connection::open(&path)?;
    /// connection.execute_batch("CREATE TABLE charge (amount INTEGER)")?;
    /// let call = Call::new("order-9482")?;
    /// assert_eq!(handle(&ledger, &mut connection, &call)?, Verdict::Applied(1));
    /// assert_eq!(handle(&ledger, &mut connection, &call)?, Verdict::Replayed(1));
    /// # Ok(()) }
    /// ```
    pub fn begin<'a, T>(
        &'a self,
        transaction: &Connection,
        call: &'a Call,
    ) -> Result<Begin<'a, Sqlite, T>, Error<Infallible>>
    where
        T: Serialize + DeserializeOwned,
    {
        let asked = Instant::now();
        let begun = begun(transaction, &wish(self.scope_of(call), call))?;
        Begin::of(self, call, asked, begun)
    }
}

/// Looks at the entry, in a transaction that nobody writes beside.
fn begun(connection: &Connection, claim: &Claim) -> Result<Begun, StoreError> {
    let (row, now) = (read(connection, &claim.scope)?, clock(connection)?);
    match decide(row.as_ref(), claim, now) {
        Decision::Answer(answer) => Ok(Begun::Answered(answer)),
        Decision::Write(..) => {
            // What is there has expired, and makes room for the one that is recorded.
            remove(connection, &claim.scope)?;
            Ok(Begun::New)
        }
    }
}

/// What is recorded, as values that can go to another thread.
struct Recorded {
    scope: Scope,
    fence: Option<i64>,
    fingerprint: Option<String>,
    ttl: std::time::Duration,
    text: String,
}

impl<T: Serialize> New<'_, Sqlite, T> {
    /// Records the result, in the transaction of the effect. If this fails, roll back.
    pub fn record(self, transaction: &Connection, result: &T) -> Result<(), Error<Infallible>> {
        let text = self.text(result)?;
        Ok(written(transaction, &self.recorded(text)?)?)
    }

    fn recorded(&self, text: String) -> Result<Recorded, StoreError> {
        let fingerprint = self.call.input.as_ref().map(Fingerprint::to_text);
        let (fence, ttl) = (kept(self.call.token)?, self.ledger.inner.ttl);
        Ok(Recorded { scope: self.scope.clone(), fence, fingerprint, ttl, text })
    }
}

fn written(connection: &Connection, recorded: &Recorded) -> Result<(), StoreError> {
    let now = clock(connection)?;
    let [consumer, key, step] = names(&recorded.scope);
    let (at, expires) = (now.as_millis(), now.after(recorded.ttl).as_millis());
    let Recorded { fence, fingerprint, text, .. } = recorded;
    let record = connection.prepare_cached(RECORD).and_then(|mut statement| {
        statement.execute(params![consumer, key, step, fence, fingerprint, at, expires, text])
    });
    record.map(drop).map_err(failed("recording"))
}

/// Records and commits. SQLite says for certain whether it did: there is no network in between.
fn committed(mut open: Open, recorded: &Recorded) -> Result<(), StoreError> {
    written(&open.connection, recorded)?;
    open.connection.execute_batch("COMMIT").map_err(failed("committing"))?;
    open.committed = true;
    Ok(())
}
