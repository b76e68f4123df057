//! What is known of a key.

use semel_core::time::Timestamp;
use semel_store::KeyRecord;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::job::{Whole, whole_columns, whole_tables};
use crate::clock::{StoreClock, database_now};
use crate::fault::Fault;
use crate::row::{Cells, config};
use crate::session::Sql;

/// The newest job of a key, its queue's settings and the time.
pub(crate) static BY_KEY: Sql = Sql {
    text: concat!(
        "SELECT ",
        database_now!(),
        ", q.config, ",
        whole_columns!(),
        " FROM ",
        whole_tables!(),
        " WHERE j.id = (SELECT k.ids[cardinality(k.ids)]
                        FROM semel.queue AS kq JOIN semel.key AS k ON k.queue = kq.id
                        WHERE kq.name = $1 AND NOT kq.deleted AND k.key = $2)"
    ),
    types: &[Type::TEXT, Type::TEXT],
};

/// The record in a row of [`BY_KEY`].
pub(crate) fn read(row: &Row, clock: &StoreClock) -> Result<KeyRecord, Fault> {
    let mut cells = Cells::of(row);
    let now: Timestamp = clock.decides(cells.take()?);
    let settings: &str = cells.take()?;
    let mut whole = Whole::read(&mut cells)?;
    let config = config(settings, whole.queue)?;
    let suppressed = std::mem::take(&mut whole.trace.suppressed).into();
    let job = whole.into_job();
    Ok(KeyRecord {
        holds: job.holds_key(&config, now),
        expires_at: job.key_expires_at(&config),
        job,
        suppressed,
    })
}
