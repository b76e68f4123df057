//! PostgreSQL, with `sqlx`.

use semel_client::Publish;
use sqlx::PgExecutor;

use crate::columns::options;

const INSERT: &str = "
    INSERT INTO semel_outbox (queue, idempotency_key, job_group, payload, options)
    VALUES ($1, $2, $3, $4::text::json, $5::text::json)
    RETURNING id";

/// Publishes when the transaction (`&mut *transaction`) commits. Returns the number of the row.
pub async fn publish(transaction: impl PgExecutor<'_>, publish: &Publish) -> Result<i64, sqlx::Error> {
    let insert = sqlx::query_scalar(INSERT)
        .bind(publish.queue())
        .bind(publish.idempotency_key())
        .bind(publish.group_name())
        .bind(publish.payload())
        .bind(options(publish));
    insert.fetch_one(transaction).await
}
