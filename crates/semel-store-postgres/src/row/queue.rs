//! `semel.queue`: a queue's settings, gate and secrets.

use semel_core::gate::Gate;
use semel_core::name::QueueName;
use semel_core::queue::QueueConfig;
use semel_core::records::{QueueRecord, WebhookSecret};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cells, time};
use crate::fault::Fault;

/// The columns of a queue, for a `SELECT` in which the table is `q`. [`QueueRow::read`] reads them.
macro_rules! queue_columns {
    () => {
        "q.id, q.name, q.config, q.gate, q.secrets, q.created_at, q.version, q.deleted, q.sweep_to"
    };
}
pub(crate) use queue_columns;

/// A queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueRow {
    /// Its number in the other tables.
    pub(crate) id: i32,
    /// What callers know of it.
    pub(crate) record: QueueRecord,
    /// Rises with every change but the gate's.
    pub(crate) version: i64,
    /// Whether it has been taken away.
    pub(crate) deleted: bool,
    /// Its finished jobs up to this id were last looked at under other settings.
    pub(crate) sweep_to: Option<i64>,
}

impl QueueRow {
    /// Reads the next nine cells: those of `queue_columns`.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Self, Fault> {
        let id: i32 = cells.take()?;
        let name: &str = cells.take()?;
        let (config, gate, secrets): (&str, &str, &str) = (cells.take()?, cells.take()?, cells.take()?);
        let created_at: i64 = cells.take()?;
        let wrong = |what: &str| Fault::damaged("queue", i64::from(id), what);
        let record = QueueRecord {
            name: QueueName::try_from(name).map_err(|_| wrong("its name is not one"))?,
            config: self::config(config, id)?,
            gate: read_json(gate).map_err(|e| wrong(&format!("its gate cannot be read: {e}")))?,
            secrets: read_json(secrets).map_err(|_| wrong("its secrets cannot be read"))?,
            created_at: time(created_at),
        };
        Ok(Self { id, record, version: cells.take()?, deleted: cells.take()?, sweep_to: cells.take()? })
    }
}

/// Settings as they were stored, of the queue with this number.
pub(crate) fn config(text: &str, queue: i32) -> Result<QueueConfig, Fault> {
    let wrong = |e| Fault::damaged("queue", queue.into(), &format!("its settings cannot be read: {e}"));
    read_json(text).map_err(wrong)
}

/// Settings as they are stored.
pub(crate) fn config_text(config: &QueueConfig) -> String {
    write_json(config)
}

/// A gate as it is stored.
pub(crate) fn gate_text(gate: &Gate) -> String {
    write_json(gate)
}

/// Secrets as they are stored.
pub(crate) fn secrets_text(secrets: &[WebhookSecret]) -> String {
    write_json(secrets)
}

/// Whether a lease needs no lock: nothing limits the queue, and its gate has nothing to remember. A pause does not count,
/// because the lease looks for it itself; nor does what was used of a rate that is no more.
pub(crate) fn is_free(config: &QueueConfig, gate: &Gate) -> bool {
    let at_rest = Gate { paused: gate.paused, bucket: gate.bucket, ..Gate::default() };
    let limited = config.rate.is_some() || config.concurrency.is_some() || config.group_concurrency.is_some();
    !limited && *gate == at_rest
}

fn write_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("text and numbers always serialise")
}

fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}
