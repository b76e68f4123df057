//! The schema and how it changes.
//!
//! Each migration is one transaction, under a lock that only lasts as long: what is killed half way has not happened, and
//! of two nodes that migrate at once the second finds nothing to do.
//!
//! # Rules for a migration
//!
//! Nodes of the version before go on working while and after a new one migrates. So a migration may add a table, a column
//! with a default or NULL, an index, or a function under a new name. It must not rename, drop, or tighten what the version
//! before uses: that waits for the next release, in a migration whose `needs` says so. A large index is made by upkeep with
//! `CREATE INDEX CONCURRENTLY`, not here, where it would hold up every write.

use std::time::Duration;

use semel_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::Maker;
use crate::fault::Fault;
use crate::locks;
use crate::options::Options;
use crate::row::Cells;
use crate::session::{Link, Sql};
use crate::survey;

/// One change of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number; they are applied in order.
    pub version: i32,
    /// What it is about.
    pub name: &'static str,
    /// What it does.
    pub sql: &'static str,
    /// The oldest version a program must know to work with the schema afterwards.
    pub needs: i32,
}

impl Migration {
    /// What applies it by hand: the transaction that a server would make.
    pub fn script(&self) -> String {
        let Self { version, name, sql, needs } = self;
        let lock = locks::MIGRATE;
        format!(
            "-- migration {version}: {name}\nBEGIN;\nSELECT pg_advisory_xact_lock({lock}, 0);\n\n{sql}\n\
             INSERT INTO semel.migration (version, name, needs) VALUES ({version}, '{name}', {needs});\nCOMMIT;\n"
        )
    }
}

/// Every migration there is, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "start", sql: include_str!("../migrations/0001_start.sql"), needs: 1 },
    Migration { version: 2, name: "move", sql: include_str!("../migrations/0002_move.sql"), needs: 1 },
    Migration { version: 3, name: "role", sql: include_str!("../migrations/0003_role.sql"), needs: 1 },
    Migration { version: 4, name: "functions", sql: FUNCTIONS, needs: 4 },
    Migration { version: 5, name: "calls", sql: include_str!("../migrations/0005_calls.sql"), needs: 4 },
    Migration { version: 6, name: "known", sql: include_str!("../migrations/0006_known.sql"), needs: 4 },
    Migration { version: 7, name: "plain", sql: include_str!("../migrations/0007_plain.sql"), needs: 4 },
    Migration { version: 8, name: "ends", sql: include_str!("../migrations/0008_ends.sql"), needs: 4 },
];

/// The functions for applications. They leave the fingerprints of their jobs to the nodes, so every node must know of them.
const FUNCTIONS: &str = concat!(
    include_str!("../migrations/0004_functions/01_ids.sql"),
    include_str!("../migrations/0004_functions/02_refusals.sql"),
    include_str!("../migrations/0004_functions/03_json.sql"),
    include_str!("../migrations/0004_functions/04_keys.sql"),
    include_str!("../migrations/0004_functions/05_collision.sql"),
    include_str!("../migrations/0004_functions/06_options.sql"),
    include_str!("../migrations/0004_functions/07_queues.sql"),
    include_str!("../migrations/0004_functions/08_drafts.sql"),
    include_str!("../migrations/0004_functions/09_publish.sql"),
    include_str!("../migrations/0004_functions/10_complete.sql"),
    include_str!("../migrations/0004_functions/11_rights.sql"),
);

/// The migrations that the database at `url` still lacks. Changes nothing.
pub async fn pending(url: &str) -> Result<Vec<Migration>, StoreError> {
    let link = connect(url).await?;
    survey::check(&link).await?;
    lacking(&link).await
}

/// Refuses a database whose schema lacks something.
pub(crate) async fn require_current(url: &str) -> Result<(), StoreError> {
    match pending(url).await?.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(StoreError::Open(format!(
            "the schema of the database is not up to date, it lacks migration {} ({}): run `semel migrate` first",
            first.version, first.name
        ))),
    }
}

/// Brings the database at `url` up to date and returns what that took.
pub async fn migrate(url: &str) -> Result<Vec<Migration>, StoreError> {
    let link = connect(url).await?;
    survey::check(&link).await?;
    let mut done = Vec::new();
    while let Some(next) = lacking(&link).await?.first() {
        if apply(&link, next).await.map_err(|fault| refused(next, &fault))? {
            tracing::info!(version = next.version, name = next.name, "migrated the database");
            done.push(*next);
        }
    }
    Ok(done)
}

/// A connection of its own: a migration may take long, wait long for another, and ends with its connection.
async fn connect(url: &str) -> Result<Link, StoreError> {
    const LONG: Duration = Duration::from_hours(24);
    let options = Options {
        node_name: "migrate".into(),
        statement_timeout: LONG,
        lock_timeout: LONG,
        // Nothing here is worth preparing, and whether there is a pooler on the way need not be known.
        prepare: false,
        ..Options::default()
    };
    let maker = Maker::new(url, &options)?;
    maker.connect().await.map_err(|fault| survey::not_opened(&fault))
}

/// What the schema lacks. A schema that has more than this program knows is fine as long as it says so itself.
async fn lacking(link: &Link) -> Result<Vec<Migration>, StoreError> {
    let (version, needs) = standing(link).await.map_err(|fault| survey::not_opened(&fault))?;
    let newest = MIGRATIONS.last().map_or(0, |newest| newest.version);
    if needs > newest {
        return Err(StoreError::Open(format!(
            "the database has schema {version}, which needs a program that knows version {needs}; this one knows {newest}: \
             start a newer semel"
        )));
    }
    Ok(MIGRATIONS.iter().filter(|migration| migration.version > version).copied().collect())
}

/// The newest version of the schema, and the oldest a program must know; zero for an empty database.
async fn standing(link: &Link) -> Result<(i32, i32), Fault> {
    // A look into the catalogue: to_regclass may still remember that there was none before this node waited for the lock.
    static MADE: Sql = Sql {
        text: "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                              JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                              WHERE n.nspname = 'semel' AND c.relname = 'migration')",
        types: &[],
    };
    static NEWEST: Sql = Sql {
        text: "SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM semel.migration",
        types: &[],
    };
    let made: bool = Cells::of(&link.query_one(&MADE, &[]).await?).take()?;
    if !made {
        return Ok((0, 0));
    }
    let row: Row = link.query_one(&NEWEST, &[]).await?;
    let mut cells = Cells::of(&row);
    Ok((cells.take()?, cells.take()?))
}

/// Applies one migration, unless another node did so while this one waited for the lock.
async fn apply(link: &Link, migration: &Migration) -> Result<bool, Fault> {
    static LOCK: Sql = Sql { text: "SELECT pg_advisory_xact_lock($1, 0)", types: &[Type::INT4] };
    static NOTE: Sql = Sql {
        text: "INSERT INTO semel.migration (version, name, needs) VALUES ($1, $2, $3)",
        types: &[Type::INT4, Type::TEXT, Type::INT4],
    };
    link.begin().await?;
    link.query(&LOCK, &[&locks::MIGRATE]).await?;
    if standing(link).await?.0 >= migration.version {
        link.rollback().await?;
        return Ok(false);
    }
    link.script(migration.sql).await?;
    link.execute(&NOTE, &[&migration.version, &migration.name, &migration.needs]).await?;
    link.commit().await?;
    Ok(true)
}

fn refused(migration: &Migration, fault: &Fault) -> StoreError {
    StoreError::Open(format!(
        "migration {} ({}) failed and has changed nothing: {fault}; mend what it says and start again",
        migration.version, migration.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_from_one_without_a_gap() {
        let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        let expected: Vec<_> = (1..).take(versions.len()).collect();
        assert_eq!(versions, expected);
        assert!(MIGRATIONS.iter().all(|migration| (1..=migration.version).contains(&migration.needs)));
    }
}
