//! Schedules, API keys and replay tasks.

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::row::Cells;
use crate::session::Sql;

/// The records of one kind, by name.
pub(crate) static OF_KIND: Sql =
    Sql { text: "SELECT name, body FROM semel.record WHERE kind = $1 ORDER BY name", types: &[Type::TEXT] };

/// The record in a row of [`OF_KIND`].
pub(crate) fn read<T: DeserializeOwned>(row: &Row) -> Result<T, Fault> {
    let mut cells = Cells::of(row);
    let (name, body): (&str, &str) = (cells.take()?, cells.take()?);
    serde_json::from_str(body)
        .map_err(|e| Fault::damaged("record", 0, &format!("{name} cannot be read: {e}")))
}
