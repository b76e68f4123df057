//! What an error of the server means to the ledger.

use std::future::Future;

use sqlx::mysql::MySqlDatabaseError;

use crate::{StoreError, StoreErrorKind};

/// The number of an error that says that somebody else was faster.
const DUPLICATE: u16 = 1062;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;

/// InnoDB ends a deadlock by undoing one of the two. How often that may happen to us in a row before it is somebody's turn
/// to look.
const TRIES: u32 = 20;

/// `map_err(failed("claiming"))`.
pub(super) fn failed(act: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| {
        let kind = match &error {
            sqlx::Error::Database(_) => number(&error).map_or(StoreErrorKind::Refused, kind),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound => {
                StoreErrorKind::Corrupt
            }
            _ => StoreErrorKind::Unavailable,
        };
        StoreError::caused(kind, format!("{act} failed"), error)
    }
}

fn kind(number: u16) -> StoreErrorKind {
    match number {
        // unknown database, unknown column, no such table
        1049 | 1054 | 1146 => StoreErrorKind::Schema,
        // too many connections, shutting down, killed, and whatever waits for somebody else
        1040 | 1053 | 1927 | 3169 | LOCK_WAIT_TIMEOUT | DEADLOCK => StoreErrorKind::Unavailable,
        // read-only, full, no permission, and whatever else it does not want
        _ => StoreErrorKind::Refused,
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

/// There is an entry of this scope already.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    number(error) == Some(DUPLICATE)
}

/// Another transaction has taken the entry's place, or both wanted to at once.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(LOCK_WAIT_TIMEOUT | DEADLOCK))
}

/// The table is not there.
pub(super) fn is_missing(error: &sqlx::Error) -> bool {
    number(error) == Some(1146)
}

/// Runs a statement again that was undone to end a deadlock.
pub(super) async fn again<T, F>(mut run: impl FnMut() -> F) -> Result<T, sqlx::Error>
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    for _ in 1..TRIES {
        match run().await {
            Err(error) if number(&error) == Some(DEADLOCK) => {}
            answer => return answer,
        }
    }
    run().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_told_from_what_does_not() {
        assert_eq!(kind(1213), StoreErrorKind::Unavailable);
        assert_eq!(kind(1290), StoreErrorKind::Refused);
        assert_eq!(kind(1114), StoreErrorKind::Refused);
        assert_eq!(kind(1146), StoreErrorKind::Schema);
    }
}
