//! A fresh store behind the SQL functions. What time it is, and in which lane ids are made, are functions of their own there, and
//! tests put others in their place: an application cannot.

use std::sync::Arc;

use async_trait::async_trait;
use semel_cluster::{Database, Template};
use semel_core::time::Millis;
use semel_store::conformance::Harness;
use semel_store::{Store, StoreError};
use semel_store_postgres::MIGRATIONS;

use crate::harness::{Postgres, cluster, connect, runtime};
use crate::sql_store::SqlStore;

/// Time as the test says, and the ids that the memory store makes.
const TEST_CLOCK: &str = "
    CREATE OR REPLACE FUNCTION semel.clock_millis() RETURNS bigint
    LANGUAGE sql VOLATILE AS $$ SELECT current_setting('semel.now')::bigint $$;

    CREATE OR REPLACE FUNCTION semel.sql_lane() RETURNS bigint
    LANGUAGE sql STABLE AS $$ SELECT 0::bigint $$;";

pub(crate) struct Sql {
    inner: Postgres,
    store: Arc<SqlStore>,
    database: Database<'static>,
}

impl Sql {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With some functions put in the place of others.
    pub(crate) fn with(changes: &str) -> Self {
        let migrations = MIGRATIONS.iter().map(|migration| migration.sql);
        let content: String = migrations.chain([TEST_CLOCK]).collect();
        let template = Template { name: "sql", content: &content };
        let database = cluster().database(&template, prepare).expect("a database is made");
        database.sql(changes).expect("the changes are SQL");
        let inner = Postgres::at(database.url(), |_| {});
        let store = Arc::new(SqlStore::new(database.url(), inner.store()));
        Self { inner, store, database }
    }
}

fn prepare(url: &str) -> Result<(), StoreError> {
    drop(Postgres::at(url, |_| {}));
    runtime().block_on(async {
        let client = connect(url).await;
        client.batch_execute(TEST_CLOCK).await.unwrap();
        client.batch_execute("DELETE FROM semel.node").await.unwrap();
    });
    Ok(())
}

#[async_trait]
impl Harness for Sql {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, span: Millis) {
        self.inner.advance(span);
    }

    async fn crash(&mut self) {
        self.inner.crash().await;
        self.store = Arc::new(SqlStore::new(self.database.url(), self.inner.store()));
    }
}
