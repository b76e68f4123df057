//! How the store is, from what PostgreSQL knows of its tables anyway.

use semel_store::Health;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::row::Cells;
use crate::session::Sql;

/// Rows are PostgreSQL's estimate (`reltuples`, and what was written since it was made): counting them would read them all.
/// The disk is the database's own affair; from here it cannot be seen.
pub(crate) static HEALTH: Sql = Sql {
    text: "SELECT coalesce(sum(greatest(c.reltuples::bigint, s.n_live_tup, 0))
                           FILTER (WHERE i.inhparent = 'semel.key'::regclass), 0)::bigint,
                  coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint
             FROM pg_catalog.pg_class c
             LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
             LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
            WHERE c.relnamespace = 'semel'::regnamespace AND c.relkind = 'r'",
    types: &[],
};

/// What a row of [`HEALTH`] says.
pub(crate) fn read(row: &Row) -> Result<Health, Fault> {
    let mut cells = Cells::of(row);
    let mut next = || cells.take::<i64>().map(|count| u64::try_from(count).unwrap_or(0));
    let (keys, bytes) = (next()?, next()?);
    Ok(Health { keys, bytes: Some(bytes), ..Health::default() })
}
