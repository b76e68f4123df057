//! MySQL and MariaDB, with `sqlx`.

use semel_client::Publish;
use sqlx::MySqlExecutor;

use crate::columns::options;

const INSERT: &str = "
    INSERT INTO semel_outbox (queue, idempotency_key, job_group, payload, options)
    VALUES (?, ?, ?, ?, ?)";

/// Publishes when the transaction (`&mut *transaction`) commits. Returns the number of the row.
pub async fn publish(transaction: impl MySqlExecutor<'_>, publish: &Publish) -> Result<u64, sqlx::Error> {
    let insert = sqlx::query(INSERT)
        .bind(publish.queue())
        .bind(publish.idempotency_key())
        .bind(publish.group_name())
        .bind(publish.payload())
        .bind(options(publish));
    Ok(insert.execute(transaction).await?.last_insert_id())
}
