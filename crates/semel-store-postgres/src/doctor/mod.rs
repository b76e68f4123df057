//! An examination of the database under a store: sizes, what vacuum has left, the server's settings, and what follows.

mod finding;
mod statements;

use std::collections::BTreeMap;

use semel_store::StoreError;
use serde::Serialize;

pub use finding::{Finding, Grade};

use crate::connect::Maker;
use crate::fault::Fault;
use crate::options::Options;
use crate::row::Cells;
use crate::session::Link;
use crate::{migrate, survey};
use statements::{CONDITION, INDEXES, SETTINGS, TABLES};

/// What was seen, and what it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Examination {
    /// The tables of the store, the largest first; partitions count as their table.
    pub tables: Vec<Table>,
    /// Their indexes, the largest first; those of partitions count as one.
    pub indexes: Vec<Index>,
    /// The settings of the server that matter, by name.
    pub settings: BTreeMap<String, String>,
    /// How the server fares.
    pub condition: Condition,
    /// What follows, the worst first.
    pub findings: Vec<Finding>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Its name, without the schema.
    pub name: String,
    /// Of how many partitions it is made; none if it is not.
    pub partitions: i64,
    /// How many rows it has, by the server's own estimate.
    pub rows: i64,
    /// How many rows vacuum has yet to take away, by the same.
    pub dead: i64,
    /// Its size without indexes, in bytes.
    pub bytes: i64,
    /// The size of its indexes, in bytes.
    pub index_bytes: i64,
    /// When any of it was vacuumed last, in milliseconds since 1970.
    pub vacuumed_at: Option<i64>,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Its name, without the schema.
    pub name: String,
    /// Its table.
    pub table: String,
    /// Its size in bytes.
    pub bytes: i64,
    /// How often it was used since the server's statistics began.
    pub scans: i64,
    /// Whether it is whole.
    pub valid: bool,
}

/// How the server fares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Connections of clients.
    pub connections: i64,
    /// How many there may be.
    pub connections_max: i64,
    /// Age of the oldest transaction that this role can see, in seconds.
    pub oldest_transaction: i64,
    /// Age of the oldest transaction that was prepared for two-phase commit, in seconds.
    pub oldest_prepared: i64,
    /// Transactions since the oldest that is not frozen.
    pub frozen_age: i64,
    /// Bytes of log that the server keeps for replicas which do not fetch them.
    pub log_kept: i64,
    /// Days from tomorrow for which there are partitions.
    pub days_ahead: i64,
    /// Jobs outside the partitions of days, counted up to a thousand.
    pub outside_days: i64,
    /// How long a finished job has been waiting to be pruned, in seconds.
    pub prune_behind: i64,
    /// Changes of counts that wait to be added up, counted up to a hundred thousand.
    pub tallies: i64,
}

/// Examines the database at `url`. Changes nothing.
pub async fn examine(url: &str) -> Result<Examination, StoreError> {
    migrate::require_current(url).await?;
    let options = Options { node_name: "doctor".into(), ..Options::default() };
    let maker = Maker::new(url, &options)?;
    let seen = async { look(&maker.connect().await?).await };
    seen.await.map_err(|fault: Fault| survey::not_opened(&fault))
}

async fn look(link: &Link) -> Result<Examination, Fault> {
    let mut seen = Examination {
        tables: link.query(&TABLES, &[]).await?.iter().map(read_table).collect::<Result<_, _>>()?,
        indexes: link.query(&INDEXES, &[]).await?.iter().map(read_index).collect::<Result<_, _>>()?,
        settings: link.query(&SETTINGS, &[]).await?.iter().map(read_setting).collect::<Result<_, _>>()?,
        condition: read_condition(&link.query_one(&CONDITION, &[]).await?)?,
        findings: Vec::new(),
    };
    seen.findings = finding::findings(&seen);
    Ok(seen)
}

fn read_table(row: &tokio_postgres::Row) -> Result<Table, Fault> {
    let mut cells = Cells::of(row);
    Ok(Table {
        name: cells.take()?,
        partitions: cells.take()?,
        rows: cells.take()?,
        dead: cells.take()?,
        bytes: cells.take()?,
        index_bytes: cells.take()?,
        vacuumed_at: cells.take()?,
    })
}

fn read_index(row: &tokio_postgres::Row) -> Result<Index, Fault> {
    let mut cells = Cells::of(row);
    Ok(Index {
        name: cells.take()?,
        table: cells.take()?,
        bytes: cells.take()?,
        scans: cells.take()?,
        valid: cells.take()?,
    })
}

fn read_setting(row: &tokio_postgres::Row) -> Result<(String, String), Fault> {
    let mut cells = Cells::of(row);
    Ok((cells.take()?, cells.take()?))
}

fn read_condition(row: &tokio_postgres::Row) -> Result<Condition, Fault> {
    let mut cells = Cells::of(row);
    Ok(Condition {
        connections: cells.take()?,
        connections_max: cells.take()?,
        oldest_transaction: cells.take()?,
        oldest_prepared: cells.take()?,
        frozen_age: cells.take()?,
        log_kept: cells.take()?,
        days_ahead: cells.take()?,
        outside_days: cells.take()?,
        prune_behind: cells.take()?,
        tallies: cells.take()?,
    })
}
