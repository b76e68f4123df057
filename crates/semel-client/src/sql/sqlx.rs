//! With `sqlx`.

use sqlx::PgExecutor;
use sqlx::postgres::PgDatabaseError;

use super::answer::{CompletedRow, PublishedRow};
use super::draft::Parts;
use super::error::Told;
use super::statement::{COMPLETE, PUBLISH};
use super::{Completed, Completion, Draft, Error, Published};

/// Publishes a job, or finds the one that holds its key. In a transaction (`&mut *transaction`) nothing is delivered before
/// it commits, and nothing is left if it does not.
pub async fn publish(transaction: impl PgExecutor<'_>, draft: &Draft) -> Result<Published, Error> {
    let Parts { delay, run_at, metadata, options } = Parts::of(draft);
    let row: PublishedRow = sqlx::query_as(PUBLISH)
        .bind(&draft.queue)
        .bind(&draft.payload)
        .bind(&draft.key)
        .bind(delay)
        .bind(run_at)
        .bind(draft.priority)
        .bind(&draft.group)
        .bind(metadata)
        .bind(options)
        .bind(&draft.publisher)
        .fetch_one(transaction)
        .await?;
    Published::read(row)
}

/// Completes a job. In a transaction (`&mut *transaction`) its effect, and whatever else it did, commits with it.
pub async fn complete(transaction: impl PgExecutor<'_>, completion: &Completion) -> Result<Completed, Error> {
    let row: CompletedRow = sqlx::query_as(COMPLETE)
        .bind(&completion.job)
        .bind(&completion.lease)
        .bind(&completion.result)
        .bind(completion.receipt())
        .fetch_one(transaction)
        .await?;
    Ok(Completed::read(row))
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if matches!(
            error,
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound
        ) {
            return Self::Answer(error.to_string());
        }
        let spoken = match &error {
            sqlx::Error::Database(spoken) => spoken.try_downcast_ref::<PgDatabaseError>(),
            _ => None,
        };
        let owned = spoken.map(|spoken| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            (
                spoken.code().to_owned(),
                spoken.message().to_owned(),
                text(spoken.detail()),
                text(spoken.hint()),
            )
        });
        let told = owned.as_ref().map(|(state, message, detail, hint)| Told {
            state,
            message,
            detail: detail.as_deref(),
            hint: hint.as_deref(),
        });
        Self::of(told, Box::new(error))
    }
}
