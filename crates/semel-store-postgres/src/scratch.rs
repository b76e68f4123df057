//! Databases for the tests inside this crate.

use semel_cluster::{Database, Shared, Template};
use semel_store::StoreError;
use tokio::runtime::Runtime;

use crate::migrate::{MIGRATIONS, migrate};

/// A runtime with everything in it.
pub(crate) fn runtime() -> Runtime {
    Runtime::new().expect("a runtime starts")
}

/// A database with the schema and nothing in it.
pub(crate) fn database() -> Database<'static> {
    let content: String = MIGRATIONS.iter().map(|migration| migration.sql).collect();
    let template = Template { name: "schema", content: &content };
    let fill = |url: &str| runtime().block_on(migrate(url)).map(drop);
    let cluster = Shared::get().expect("a PostgreSQL cluster starts");
    cluster.database::<StoreError>(&template, fill).expect("a database is made")
}
