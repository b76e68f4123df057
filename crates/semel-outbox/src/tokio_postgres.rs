//! PostgreSQL, with `tokio-postgres`.

use semel_client::Publish;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, GenericClient};

use crate::columns::options;

const INSERT: &str = "
    INSERT INTO semel_outbox (queue, idempotency_key, job_group, payload, options)
    VALUES ($1, $2, $3, $4::text::json, $5::text::json)
    RETURNING id";

/// Publishes when the transaction commits. Returns the number of the row.
pub async fn publish(transaction: &impl GenericClient, publish: &Publish) -> Result<i64, Error> {
    let options = options(publish);
    let rows = transaction
        .query_typed(
            INSERT,
            &[
                (&publish.queue(), Type::TEXT),
                (&publish.idempotency_key(), Type::TEXT),
                (&publish.group_name(), Type::TEXT),
                (&publish.payload(), Type::TEXT),
                (&options, Type::TEXT),
            ],
        )
        .await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}
