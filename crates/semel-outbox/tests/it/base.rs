//! A database of each kind, with an outbox and a table of the application's.

use rusqlite::Connection;
use semel_cluster::{Database, MariaDatabase, Shared, SharedMaria, Template, sql_at};
use semel_outbox::{Publish, schema};
use sqlx::{MySqlPool, PgPool};
use tempfile::TempDir;

/// What an application has besides.
const ORDERS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Maria,
    Sqlite,
}

/// A database of one test's own.
pub(crate) enum Base {
    Postgres(PgPool, Database<'static>),
    Maria(MySqlPool, MariaDatabase<'static>),
    Sqlite(TempDir),
}

impl Base {
    pub(crate) async fn open(kind: Kind) -> Self {
        match kind {
            Kind::Postgres => {
                let database = tokio::task::spawn_blocking(postgres).await.unwrap();
                Self::Postgres(PgPool::connect(database.url()).await.unwrap(), database)
            }
            Kind::Maria => {
                let database = tokio::task::spawn_blocking(maria).await.unwrap();
                Self::Maria(MySqlPool::connect(database.url()).await.unwrap(), database)
            }
            Kind::Sqlite => {
                let base = Self::Sqlite(tempfile::tempdir().unwrap());
                base.sqlite().execute_batch(&format!("{}; {ORDERS}", schema::SQLITE)).unwrap();
                base
            }
        }
    }

    /// Where a relay finds it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(_, database) => database.url().to_owned(),
            Self::Maria(_, database) => database.url().to_owned(),
            Self::Sqlite(dir) => format!("sqlite:{}", dir.path().join("shop.db").display()),
        }
    }

    pub(crate) fn sqlite(&self) -> Connection {
        let Self::Sqlite(dir) = self else { panic!("this is for SQLite") };
        let database = Connection::open(dir.path().join("shop.db")).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
        database
    }

    /// Publishes in one transaction that commits.
    pub(crate) async fn publish(&self, wishes: &[Publish]) {
        match self {
            Self::Postgres(pool, _) => {
                let mut transaction = pool.begin().await.unwrap();
                for wish in wishes {
                    semel_outbox::sqlx_postgres::publish(&mut *transaction, wish).await.unwrap();
                }
                transaction.commit().await.unwrap();
            }
            Self::Maria(pool, _) => {
                let mut transaction = pool.begin().await.unwrap();
                for wish in wishes {
                    semel_outbox::sqlx_mysql::publish(&mut *transaction, wish).await.unwrap();
                }
                transaction.commit().await.unwrap();
            }
            Self::Sqlite(_) => {
                let mut database = self.sqlite();
                let transaction = database.transaction().unwrap();
                for wish in wishes {
                    semel_outbox::rusqlite::publish(&transaction, wish).unwrap();
                }
                transaction.commit().unwrap();
            }
        }
    }

    /// What another language does: plain SQL.
    pub(crate) fn sql(&self, sql: &str) {
        match self {
            Self::Postgres(_, database) => drop(database.sql(sql).unwrap()),
            Self::Maria(_, database) => drop(database.sql(sql).unwrap()),
            Self::Sqlite(_) => self.sqlite().execute_batch(sql).unwrap(),
        }
    }

    /// Lets go of it; a database with connections cannot be dropped everywhere.
    pub(crate) async fn close(self) {
        match &self {
            Self::Postgres(pool, _) => pool.close().await,
            Self::Maria(pool, _) => pool.close().await,
            Self::Sqlite(_) => {}
        }
        tokio::task::spawn_blocking(move || drop(self)).await.unwrap();
    }
}

fn postgres() -> Database<'static> {
    let content = format!("{}; {ORDERS}", schema::POSTGRES);
    let template = Template { name: "outbox", content: &content };
    let shared = Shared::get().expect("a PostgreSQL cluster starts");
    shared.database(&template, |url| sql_at(url, &[&content]).map(drop)).expect("a database is made")
}

fn maria() -> MariaDatabase<'static> {
    let database = SharedMaria::get().expect("a MariaDB starts").database().expect("a database is made");
    database.sql(&format!("{} {ORDERS}", schema::MYSQL)).unwrap();
    database
}

/// Makes a test of each function for every kind of database.
macro_rules! on_every_database {
    ($($name:ident),* $(,)?) => {
        mod postgres { $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::base::Kind::Postgres).await; })* }
        mod maria { $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::base::Kind::Maria).await; })* }
        mod sqlite { $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() { super::$name(crate::base::Kind::Sqlite).await; })* }
    };
}

pub(crate) use on_every_database;
