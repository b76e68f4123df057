//! SQLite, with `rusqlite`.

use rusqlite::{Connection, Error, params};
use semel_client::Publish;

use crate::columns::options;

const INSERT: &str = "
    INSERT INTO semel_outbox (queue, idempotency_key, job_group, payload, options)
    VALUES (?1, ?2, ?3, ?4, ?5)";

/// Publishes when the transaction (a `&Transaction` is a `&Connection`) commits. Returns the number of the row.
///
/// ```
/// use semel_outbox::{Publish, rusqlite::publish, schema};
///
/// let mut database = rusqlite::Connection::open_in_memory()?;
/// database.execute_batch(schema::SQLITE)?;
/// let transaction = database.transaction()?;
/// let id = publish(&transaction, &Publish::new("mails", &serde_json::json!({ "to": "ada" }))?)?;
/// transaction.commit()?;
/// assert_eq!(id, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publish(transaction: &Connection, publish: &Publish) -> Result<i64, Error> {
    let mut insert = transaction.prepare_cached(INSERT)?;
    insert.execute(params![
        publish.queue(),
        publish.idempotency_key(),
        publish.group_name(),
        publish.payload(),
        options(publish),
    ])?;
    Ok(transaction.last_insert_rowid())
}
