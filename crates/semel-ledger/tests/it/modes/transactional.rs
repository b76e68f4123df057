//! The transactional mode on every database, in both its forms.

use std::convert::Infallible;

use semel_ledger::handler::Disposition;
use semel_ledger::mysql::SqlxMySql;
use semel_ledger::postgres::{SqlxPostgres, Transaction};
use semel_ledger::sqlite::Sqlite;
use semel_ledger::store::Store;
use semel_ledger::testkit::{Delivery, Promise, prove};
use semel_ledger::{Begin, Call, Error, Key, Ledger, Verdict};
use sqlx::{MySqlConnection, PgConnection};

use super::{LEASE, handled};
use crate::mysql::OnMaria;
use crate::postgres::{Tokio, client, database, pool, tokio_store};
use crate::sqlite::OnSqlite;

pub(crate) const TABLE: &str = "CREATE TABLE charge (job varchar(255) NOT NULL)";

pub(crate) type Outcome<E> = Result<Verdict<u64>, Error<E>>;

fn ledger<S: Store>(store: S) -> Ledger<S> {
    // No cache: the store is what is proven here.
    Ledger::builder(store, "billing").lease(LEASE).cache_bytes(0).build().unwrap()
}

/// Proves a handler whose effects are rows of the table.
async fn kept<D, DF, C, CF>(deliver: D, count: C)
where
    D: Fn(Delivery) -> DF + Send + Sync + 'static,
    DF: Future<Output = Disposition> + Send + 'static,
    C: Fn(Key) -> CF,
    CF: Future<Output = i64>,
{
    let counted = async |key: Key| u64::try_from(count(key).await).unwrap();
    prove(Promise::Once, deliver, counted).await.assert();
}

fn never<E>(error: Error<Infallible>) -> Error<E> {
    error.map(|never| match never {})
}

pub(crate) async fn by_tokio(
    ledger: Ledger<Tokio>,
    url: String,
    call: Call,
) -> Outcome<tokio_postgres::Error> {
    let (mut client, job) = (client(&url).await, call.key().to_string());
    let charge = async |transaction: &Transaction<'_>| {
        transaction.execute("INSERT INTO charge VALUES ($1)", &[&job]).await
    };
    ledger.transact(&mut client, &call, charge).await
}

async fn by_tokio_itself(ledger: Ledger<Tokio>, url: String, call: Call) -> Outcome<tokio_postgres::Error> {
    let (mut client, job) = (client(&url).await, call.key().to_string());
    let transaction = client.transaction().await.map_err(Error::Effect)?;
    match ledger.begin(&transaction, &call).await.map_err(never)? {
        Begin::Answered(verdict) => Ok(verdict),
        Begin::New(entry) => {
            let insert = transaction.execute("INSERT INTO charge VALUES ($1)", &[&job]).await;
            let rows = insert.map_err(Error::Effect)?;
            entry.record(&transaction, &rows).await.map_err(never)?;
            transaction.commit().await.map_err(Error::Effect)?;
            Ok(Verdict::Applied(rows))
        }
    }
}

pub(crate) async fn by_sqlx(ledger: Ledger<SqlxPostgres>, call: Call) -> Outcome<sqlx::Error> {
    let job = call.key().to_string();
    let charge = async |connection: &mut PgConnection| {
        let insert = sqlx::query("INSERT INTO charge VALUES ($1)").bind(&job);
        insert.execute(connection).await.map(|done| done.rows_affected())
    };
    ledger.transact(ledger.store().pool(), &call, charge).await
}

async fn by_sqlx_itself(ledger: Ledger<SqlxPostgres>, call: Call) -> Outcome<sqlx::Error> {
    let job = call.key().to_string();
    let mut transaction = ledger.store().pool().begin().await.map_err(Error::Effect)?;
    match ledger.begin(&mut transaction, &call).await.map_err(never)? {
        Begin::Answered(verdict) => Ok(verdict),
        Begin::New(entry) => {
            let insert = sqlx::query("INSERT INTO charge VALUES ($1)").bind(&job);
            let rows = insert.execute(&mut *transaction).await.map_err(Error::Effect)?.rows_affected();
            entry.record(&mut transaction, &rows).await.map_err(never)?;
            transaction.commit().await.map_err(Error::Effect)?;
            Ok(Verdict::Applied(rows))
        }
    }
}

pub(crate) async fn by_sqlite(ledger: Ledger<Sqlite>, call: Call) -> Outcome<rusqlite::Error> {
    let job = call.key().to_string();
    let charge = move |connection: &rusqlite::Connection| {
        connection.execute("INSERT INTO charge VALUES (?1)", [job]).map(|rows| u64::try_from(rows).unwrap())
    };
    ledger.transact(&call, charge).await
}

pub(crate) async fn by_mysql(ledger: Ledger<SqlxMySql>, call: Call) -> Outcome<sqlx::Error> {
    let job = call.key().to_string();
    let charge = async |connection: &mut MySqlConnection| {
        let insert = sqlx::query("INSERT INTO charge VALUES (?)").bind(&job);
        insert.execute(connection).await.map(|done| done.rows_affected())
    };
    ledger.transact(ledger.store().pool(), &call, charge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_through_tokio_postgres() {
    let database = database();
    database.sql(TABLE).unwrap();
    let (url, ledger) = (database.url().to_owned(), ledger(tokio_store(database.url())));
    let counting = client(&url).await;
    let count = async |key: Key| {
        let count = "SELECT count(*) FROM charge WHERE job = $1";
        counting.query_one(count, &[&key.as_str()]).await.unwrap().get(0)
    };
    let (again, at) = (ledger.clone(), url.clone());
    let deliver = move |delivery: Delivery| {
        let (ledger, url) = (ledger.clone(), url.clone());
        async move { handled(&delivery, |call| by_tokio(ledger, url, call)).await }
    };
    kept(deliver, count).await;
    let deliver = move |delivery: Delivery| {
        let (ledger, url) = (again.clone(), at.clone());
        async move { handled(&delivery, |call| by_tokio_itself(ledger, url, call)).await }
    };
    kept(deliver, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_through_sqlx() {
    let database = database();
    database.sql(TABLE).unwrap();
    let pool = pool(database.url()).await;
    let ledger = ledger(SqlxPostgres::new(pool.clone()));
    let count = async |key: Key| {
        let count = sqlx::query_scalar("SELECT count(*) FROM charge WHERE job = $1").bind(key.to_string());
        count.fetch_one(&pool).await.unwrap()
    };
    let again = ledger.clone();
    let deliver = move |delivery: Delivery| {
        let ledger = ledger.clone();
        async move { handled(&delivery, |call| by_sqlx(ledger, call)).await }
    };
    kept(deliver, count).await;
    let deliver = move |delivery: Delivery| {
        let ledger = again.clone();
        async move { handled(&delivery, |call| by_sqlx_itself(ledger, call)).await }
    };
    kept(deliver, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_through_rusqlite() {
    let on = OnSqlite::start().await;
    let counting = rusqlite::Connection::open(on.path()).unwrap();
    counting.execute_batch(TABLE).unwrap();
    let count = |key: Key| {
        let count = "SELECT count(*) FROM charge WHERE job = ?1";
        std::future::ready(counting.query_row(count, [key.as_str()], |row| row.get(0)).unwrap())
    };
    let ledger = ledger(on.store.clone());
    let deliver = move |delivery: Delivery| {
        let ledger = ledger.clone();
        async move { handled(&delivery, |call| by_sqlite(ledger, call)).await }
    };
    kept(deliver, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_through_sqlx_on_mariadb() {
    let on = OnMaria::start().await;
    sqlx::query(TABLE).execute(on.store.pool()).await.unwrap();
    let count = async |key: Key| {
        let count = sqlx::query_scalar("SELECT count(*) FROM charge WHERE job = ?").bind(key.to_string());
        count.fetch_one(on.store.pool()).await.unwrap()
    };
    let ledger = ledger(on.store.clone());
    let deliver = move |delivery: Delivery| {
        let ledger = ledger.clone();
        async move { handled(&delivery, |call| by_mysql(ledger, call)).await }
    };
    kept(deliver, count).await;
}
