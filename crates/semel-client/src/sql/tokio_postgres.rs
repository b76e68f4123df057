//! With `tokio-postgres`, alone or in a pool.

use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::draft::Parts;
use super::error::Told;
use super::statement::{COMPLETE, PUBLISH};
use super::{Completed, Completion, Draft, Error, Published};

/// Publishes a job, or finds the one that holds its key. In a transaction nothing is delivered before it commits, and nothing
/// is left if it does not.
pub async fn publish(transaction: &impl GenericClient, draft: &Draft) -> Result<Published, Error> {
    let Parts { delay, run_at, metadata, options } = Parts::of(draft);
    // The types are named, so that no other round trip asks for them and nothing is prepared, which a pooler would lose.
    let params = [
        (&draft.queue as _, Type::TEXT),
        (&draft.payload as _, Type::TEXT),
        (&draft.key as _, Type::TEXT),
        (&delay as _, Type::INT8),
        (&run_at as _, Type::INT8),
        (&draft.priority as _, Type::INT4),
        (&draft.group as _, Type::TEXT),
        (&metadata as _, Type::TEXT),
        (&options as _, Type::TEXT),
        (&draft.publisher as _, Type::TEXT),
    ];
    let row = transaction.query_typed_one(PUBLISH, &params).await?;
    Published::read((
        cell(&row, 0)?,
        cell(&row, 1)?,
        cell(&row, 2)?,
        cell(&row, 3)?,
        cell(&row, 4)?,
        cell(&row, 5)?,
        cell(&row, 6)?,
    ))
}

/// Completes a job. In a transaction its effect, and whatever else it did, commits with it.
pub async fn complete(transaction: &impl GenericClient, completion: &Completion) -> Result<Completed, Error> {
    let receipt = completion.receipt();
    let params = [
        (&completion.job as _, Type::TEXT),
        (&completion.lease as _, Type::TEXT),
        (&completion.result as _, Type::TEXT),
        (&receipt as _, Type::TEXT),
    ];
    let row = transaction.query_typed_one(COMPLETE, &params).await?;
    Ok(Completed::read((cell(&row, 0)?, cell(&row, 1)?, cell(&row, 2)?)))
}

fn cell<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, Error> {
    row.try_get(place).map_err(|error| Error::Answer(error.to_string()))
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let spoken = error.as_db_error().cloned();
        let told = spoken.as_ref().map(|spoken| Told {
            state: spoken.code().code(),
            message: spoken.message(),
            detail: spoken.detail(),
            hint: spoken.hint(),
        });
        Self::of(told, Box::new(error))
    }
}
