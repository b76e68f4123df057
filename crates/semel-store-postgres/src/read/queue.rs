//! Queues as callers see them.

use semel_core::records::QueueRecord;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::{Cells, QueueRow, queue_columns};
use crate::session::Sql;

/// A queue by its name.
pub(crate) static BY_NAME: Sql = Sql {
    text: concat!("SELECT ", queue_columns!(), " FROM semel.queue AS q WHERE q.name = $1 AND NOT q.deleted"),
    types: &[Type::TEXT],
};

/// All queues, by name.
pub(crate) static ALL: Sql = Sql {
    text: concat!("SELECT ", queue_columns!(), " FROM semel.queue AS q WHERE NOT q.deleted ORDER BY q.name"),
    types: &[],
};

/// The queue in a row of either.
pub(crate) fn read(row: &Row) -> Result<QueueRecord, Fault> {
    QueueRow::read(&mut Cells::of(row)).map(|row| row.record)
}
