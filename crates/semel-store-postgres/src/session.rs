//! One connection in use: statements, transactions, and what happens to it when its user goes away.
//!
//! Every call is sent when its future is first polled, and answers come in the order of the calls. So a flight of several
//! calls in one round trip is their futures, made in order and polled together (`join_all`, `join!` of `futures_util`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use deadpool::managed::Object;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::connect::Maker;
use crate::fault::Fault;
use crate::reign::Reign;

/// A statement and the types of its parameters, so that it can go out without asking the database for them first.
#[derive(Debug)]
pub(crate) struct Sql {
    /// The statement.
    pub(crate) text: &'static str,
    /// The types of `$1`, `$2`, ...
    pub(crate) types: &'static [Type],
}

/// What goes into the place of `$1`, `$2`, ...
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    client: Client,
    prepare: bool,
    begin: String,
    answer_timeout: Duration,
    /// The server it leads to, if that is known.
    pub(crate) reign: Option<Reign>,
    /// When whoever uses it now loses patience.
    until: Option<Instant>,
    statements: Mutex<Statements>,
    /// Whether a transaction is open, or something is on its way of which nobody knows the end.
    unsettled: AtomicBool,
}

/// What has been prepared on a connection, and what was used without.
#[derive(Debug, Default)]
struct Statements {
    prepared: HashMap<&'static str, Statement>,
    wanted: Vec<&'static Sql>,
}

impl Link {
    pub(crate) fn new(client: Client, prepare: bool, begin: String, answer_timeout: Duration) -> Self {
        let (statements, unsettled) = (Mutex::default(), AtomicBool::new(false));
        Self { client, prepare, begin, answer_timeout, reign: None, until: None, statements, unsettled }
    }

    /// From now on it is used by somebody whose patience ends then.
    pub(crate) fn lend(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Whether somebody else may use it next.
    pub(crate) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.unsettled.load(Ordering::Acquire)
    }

    fn statements(&self) -> MutexGuard<'_, Statements> {
        self.statements.lock().expect("the lock is never held across a panic")
    }

    /// A statement as it was prepared. The first time there is none, and it goes out without a name: preparing it now would
    /// make it wait, and what was called after it would overtake it.
    fn prepared(&self, sql: &'static Sql) -> Option<Statement> {
        if !self.prepare {
            return None;
        }
        let mut statements = self.statements();
        let known = statements.prepared.get(sql.text).cloned();
        if known.is_none() && statements.wanted.iter().all(|wanted| wanted.text != sql.text) {
            statements.wanted.push(sql);
        }
        known
    }

    /// Waits for an answer, but not for ever.
    async fn answer<T>(
        &self,
        sent: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let late = Instant::now() + self.answer_timeout;
        match timeout_at(self.until.map_or(late, |until| until.min(late)), sent).await {
            Ok(answered) => answered.map_err(|error| self.noted(error.into())),
            Err(_) => Err(self.noted(Fault::Lost("the database did not answer in time".into()))),
        }
    }

    /// Makes sure that nobody gets this connection next if it is at fault.
    fn noted(&self, fault: Fault) -> Fault {
        if fault.needs_another_connection() {
            self.unsettled.store(true, Ordering::Release);
        }
        fault
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Vec<Row>, Fault> {
        match self.prepared(sql) {
            Some(statement) => self.answer(self.client.query(&statement, params)).await,
            None => self.answer(self.client.query_typed(sql.text, &typed(sql, params))).await,
        }
    }

    /// Runs a statement whose text is made for the occasion.
    pub(crate) async fn query_text(
        &self,
        text: &str,
        params: &[(Param<'_>, Type)],
    ) -> Result<Vec<Row>, Fault> {
        self.answer(self.client.query_typed(text, params)).await
    }

    /// Runs a statement that gives one row or none.
    pub(crate) async fn query_opt(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs a statement that gives one row.
    pub(crate) async fn query_one(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Row, Fault> {
        let row = self.query_opt(sql, params).await?;
        row.ok_or_else(|| Fault::Broken("a statement that always gives a row gave none".into()))
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<u64, Fault> {
        match self.prepared(sql) {
            Some(statement) => self.answer(self.client.execute(&statement, params)).await,
            None => self.answer(self.client.execute_typed(sql.text, &typed(sql, params))).await,
        }
    }

    /// Begins a transaction, with its time-outs.
    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.unsettled.store(true, Ordering::Release);
        self.answer(self.client.batch_execute(&self.begin)).await
    }

    /// Ends the transaction. `Ok` means that the server ended it; it has happened only if no call before it failed, for
    /// after a failure COMMIT rolls back and says nothing of it.
    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.end("COMMIT").await
    }

    /// Undoes the transaction.
    pub(crate) async fn rollback(&self) -> Result<(), Fault> {
        self.end("ROLLBACK").await
    }

    async fn end(&self, how: &str) -> Result<(), Fault> {
        self.answer(self.client.batch_execute(how)).await?;
        self.unsettled.store(false, Ordering::Release);
        Ok(())
    }

    /// Runs any number of statements that come as one text, without parameters and without rows, however long it takes.
    pub(crate) async fn script(&self, text: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(text).await?)
    }
}

fn typed<'a>(sql: &'static Sql, params: &[Param<'a>]) -> Vec<(Param<'a>, Type)> {
    debug_assert_eq!(params.len(), sql.types.len(), "{}", sql.text);
    params.iter().copied().zip(sql.types.iter().cloned()).collect()
}

/// A connection that is in use. It goes back to the pool when this is dropped, unless it has a transaction open: its caller
/// went away in the middle, and only the end of the connection surely ends that transaction.
#[derive(Debug)]
pub(crate) struct Session(Option<Object<Maker>>);

impl Session {
    pub(crate) fn new(link: Object<Maker>) -> Self {
        Self(Some(link))
    }

    /// Prepares what was used without since the connection was made, in one round trip.
    pub(crate) async fn prepare_wanted(&self) -> Result<(), Fault> {
        let wanted = std::mem::take(&mut self.statements().wanted);
        if wanted.is_empty() {
            return Ok(());
        }
        let prepare = |sql: &&'static Sql| self.client.prepare_typed(sql.text, sql.types);
        let made = self.answer(async { Ok(join_all(wanted.iter().map(prepare)).await) }).await?;
        for (sql, statement) in wanted.iter().zip(made) {
            let statement = statement.map_err(|error| self.noted(error.into()))?;
            self.statements().prepared.insert(sql.text, statement);
        }
        Ok(())
    }
}

impl std::ops::Deref for Session {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.0.as_deref().expect("a session has its connection until it is dropped")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(link) = self.0.take().filter(|link| !link.is_usable()) {
            // Out of the pool, and so closed.
            drop(Object::take(link));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join3;
    use tokio_postgres::error::SqlState;

    use super::*;
    use crate::connect::Pool;
    use crate::options::Options;
    use crate::row::Cells;
    use crate::scratch;

    static PID: Sql = Sql { text: "SELECT pg_backend_pid()", types: &[] };
    static NOTE: Sql =
        Sql { text: "INSERT INTO semel.meta (name, value) VALUES ($1, 1)", types: &[Type::TEXT] };
    static NOTES: Sql = Sql { text: "SELECT count(*) FROM semel.meta WHERE name = $1", types: &[Type::TEXT] };
    static PREPARED: Sql = Sql { text: "SELECT count(*) FROM pg_prepared_statements", types: &[] };
    static SLEEP: Sql = Sql { text: "SELECT pg_sleep(20)", types: &[] };

    async fn number<T: for<'a> tokio_postgres::types::FromSql<'a>>(
        link: &Link,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> T {
        Cells::of(&link.query_one(sql, params).await.unwrap()).take().unwrap()
    }

    /// Runs a test against a pool with one connection.
    fn with_pool<F: Future<Output = ()>>(options: &Options, test: impl FnOnce(Pool) -> F) {
        let (database, runtime) = (scratch::database(), scratch::runtime());
        let options = Options { connections: 1, ..options.clone() };
        runtime.block_on(async { test(Pool::new(database.url(), &options).unwrap()).await });
    }

    #[test]
    fn a_caller_that_goes_away_takes_its_transaction_along() {
        with_pool(&Options::default(), async |pool| {
            let session = pool.session().await.unwrap();
            let first: i32 = number(&session, &PID, &[]).await;
            session.begin().await.unwrap();
            session.execute(&NOTE, &[&"half"]).await.unwrap();
            drop(session);
            let next = pool.session().await.unwrap();
            assert_ne!(first, number::<i32>(&next, &PID, &[]).await, "the connection is not used again");
            assert_eq!(0, number::<i64>(&next, &NOTES, &[&"half"]).await);
            let second: i32 = number(&next, &PID, &[]).await;
            next.begin().await.unwrap();
            next.commit().await.unwrap();
            drop(next);
            let again = pool.session().await.unwrap();
            assert_eq!(second, number::<i32>(&again, &PID, &[]).await, "one that ended well is");
        });
    }

    #[test]
    fn calls_that_are_polled_together_arrive_in_order_prepared_or_not() {
        with_pool(&Options::default(), async |pool| {
            for name in ["first", "second", "third"] {
                let session = pool.session().await.unwrap();
                let params: [Param<'_>; 1] = [&name];
                let (begun, noted, ended) =
                    join3(session.begin(), session.execute(&NOTE, &params), session.rollback()).await;
                assert_eq!((begun.unwrap(), noted.unwrap(), ended.unwrap()), ((), 1, ()));
                assert_eq!(0, number::<i64>(&session, &NOTES, &[&name]).await, "{name} was inside");
            }
        });
    }

    #[test]
    fn a_statement_is_prepared_when_it_comes_again_and_never_behind_a_pooler() {
        for (prepare, expected) in [(true, 1), (false, 0)] {
            with_pool(&Options { prepare, ..Options::default() }, async move |pool| {
                for _ in 0..3 {
                    number::<i32>(&pool.session().await.unwrap(), &PID, &[]).await;
                }
                let session = pool.session().await.unwrap();
                assert_eq!(expected, number::<i64>(&session, &PREPARED, &[]).await);
            });
        }
    }

    #[test]
    fn a_statement_that_takes_too_long_is_given_up_with_a_pooler_and_without() {
        for prepare in [true, false] {
            let options =
                Options { prepare, statement_timeout: Duration::from_millis(50), ..Options::default() };
            with_pool(&options, async |pool| {
                let session = pool.session().await.unwrap();
                session.begin().await.unwrap();
                let fault = session.query(&SLEEP, &[]).await.unwrap_err();
                let Fault::Refused { state, .. } = &fault else { panic!("{fault}") };
                assert_eq!(*state, SqlState::QUERY_CANCELED);
                assert!(fault.nothing_done().retryable(), "{fault}");
                session.rollback().await.unwrap();
            });
        }
    }

    #[test]
    fn a_connection_that_was_killed_is_replaced() {
        with_pool(&Options::default(), async |pool| {
            static KILL: Sql = Sql { text: "SELECT pg_terminate_backend(pg_backend_pid())", types: &[] };
            let session = pool.session().await.unwrap();
            let fault = session.query(&KILL, &[]).await.unwrap_err();
            assert!(fault.needs_another_connection(), "{fault}");
            drop(session);
            pool.session().await.unwrap().query(&PID, &[]).await.expect("a new connection is made");
        });
    }
}
