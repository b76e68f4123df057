//! What can go wrong between a node and the database, and what callers hear of it.
//!
//! The one question that matters is whether a change may have happened. Before COMMIT was sent nothing has, whatever broke:
//! a connection that is lost takes its transaction with it. Once COMMIT was sent, an answer that is lost leaves it open.

use std::time::Duration;

use semel_core::lifecycle::IllegalTransition;
use semel_store::StoreError;
use tokio_postgres::error::SqlState;

/// When a caller may try again after the database was not there or too busy: about as long as a new connection takes.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a statement or a whole transaction did not go through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// No connection was to be had. Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke, or no answer came in time. What was sent may have been done.
    #[error("{0}")]
    Lost(String),
    /// The database said no.
    #[error("{message} (SQLSTATE {})", .state.code())]
    Refused {
        /// The class of error.
        state: SqlState,
        /// What it said.
        message: String,
        /// The table it is about, if it said.
        table: Option<String>,
    },
    /// A row cannot be read.
    #[error("the {table} row {row}: {what}")]
    Damaged {
        /// The table.
        table: &'static str,
        /// Which row.
        row: i64,
        /// What is wrong with it.
        what: String,
    },
    /// The rows say what no rule allows.
    #[error("{0}")]
    Illegal(#[from] IllegalTransition),
    /// This program is wrong.
    #[error("{0}")]
    Broken(String),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Fault {
    /// A row that cannot be read.
    pub(crate) fn damaged(table: &'static str, row: i64, what: &str) -> Self {
        Self::Damaged { table, row, what: what.to_owned() }
    }

    /// Whether the whole transaction may go through if it is tried again at once: it lost a race to another.
    pub(crate) fn lost_a_race(&self) -> bool {
        let Self::Refused { state, table, .. } = self else { return false };
        let of_name = |table: &str| table == "queue" || table.starts_with("key");
        match *state {
            SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::LOCK_NOT_AVAILABLE => true,
            // Two nodes published one new key, or made one queue, at once. The second finds the first's row when it looks
            // again.
            SqlState::UNIQUE_VIOLATION => table.as_deref().is_some_and(of_name),
            _ => false,
        }
    }

    /// Whether another connection may do better: this one is gone, or leads to a server that takes no writes.
    pub(crate) fn needs_another_connection(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Refused { state, .. } => is_outage(state),
            _ => false,
        }
    }

    /// What a caller hears when nothing has happened: COMMIT was not sent, or was answered with an error.
    pub(crate) fn nothing_done(&self) -> StoreError {
        match self {
            Self::Refused { state, .. } if *state == SqlState::DISK_FULL => {
                StoreError::Full(self.to_string())
            }
            Self::Refused { state, .. } if state.code().starts_with("XX") => {
                StoreError::Corrupt(self.to_string())
            }
            Self::Unreachable(_) | Self::Lost(_) => busy(self),
            Self::Refused { state, .. } if self.lost_a_race() || is_outage(state) || is_overload(state) => {
                busy(self)
            }
            Self::Refused { .. } => StoreError::Failed(self.to_string()),
            Self::Damaged { .. } => StoreError::Corrupt(self.to_string()),
            Self::Illegal(_) | Self::Broken(_) => StoreError::Corrupt(format!("a rule was broken: {self}")),
            Self::Closed => StoreError::Closed,
        }
    }

    /// What a caller hears when COMMIT was sent, and this came instead of its answer.
    pub(crate) fn after_commit(&self) -> StoreError {
        match self {
            Self::Lost(_) => StoreError::Unknown(self.to_string()),
            // A server that is being stopped has often committed already, and only not told its replicas yet.
            Self::Refused { state, .. } if is_outage(state) || state.code().starts_with("XX") => {
                StoreError::Unknown(self.to_string())
            }
            _ => self.nothing_done(),
        }
    }
}

fn busy(fault: &Fault) -> StoreError {
    StoreError::Busy { what: fault.to_string(), retry_after: RETRY_AFTER }
}

/// The server is going, coming, or not the primary.
fn is_outage(state: &SqlState) -> bool {
    let outages = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::DATABASE_DROPPED,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    outages.contains(state) || state.code().starts_with("08")
}

/// The server is there and has too much to do: too many connections, no memory, a statement that ran out of time.
fn is_overload(state: &SqlState) -> bool {
    *state == SqlState::QUERY_CANCELED || state.code().starts_with("53")
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => Self::Refused {
                state: refused.code().clone(),
                message: refused.message().to_owned(),
                table: refused.table().map(str::to_owned),
            },
            None => Self::Lost(with_cause(&error)),
        }
    }
}

/// An error and what is behind it: `tokio_postgres` itself only says "error communicating with the server".
pub(crate) fn with_cause(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(state: SqlState, table: Option<&str>) -> Fault {
        Fault::Refused { state, message: "no".into(), table: table.map(str::to_owned) }
    }

    #[test]
    fn a_lost_answer_is_unknown_only_once_commit_was_sent() {
        let lost = Fault::Lost("reset".into());
        assert!(matches!(lost.nothing_done(), StoreError::Busy { .. }));
        assert!(lost.after_commit().is_unknown());
        let refused = refused(SqlState::T_R_SERIALIZATION_FAILURE, None);
        assert!(!refused.after_commit().is_unknown(), "an answer, even a bad one, is an answer");
    }

    #[test]
    fn a_server_that_is_stopped_at_commit_may_have_committed() {
        for state in [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CONNECTION_FAILURE] {
            let fault = refused(state, None);
            assert!(fault.after_commit().is_unknown(), "{fault}");
            assert!(matches!(fault.nothing_done(), StoreError::Busy { .. }), "{fault}");
            assert!(fault.needs_another_connection(), "{fault}");
        }
    }

    #[test]
    fn only_the_race_for_a_new_key_makes_a_double_worth_another_try() {
        assert!(refused(SqlState::UNIQUE_VIOLATION, Some("key_3")).lost_a_race());
        assert!(!refused(SqlState::UNIQUE_VIOLATION, Some("job_default")).lost_a_race());
        assert!(refused(SqlState::T_R_DEADLOCK_DETECTED, None).lost_a_race());
        assert!(refused(SqlState::LOCK_NOT_AVAILABLE, None).lost_a_race());
        assert!(!refused(SqlState::SYNTAX_ERROR, None).lost_a_race());
    }

    #[test]
    fn a_full_disk_and_a_damaged_page_are_told_apart() {
        assert!(matches!(refused(SqlState::DISK_FULL, None).nothing_done(), StoreError::Full(_)));
        assert!(matches!(refused(SqlState::DATA_CORRUPTED, None).nothing_done(), StoreError::Corrupt(_)));
        assert!(matches!(
            refused(SqlState::TOO_MANY_CONNECTIONS, None).nothing_done(),
            StoreError::Busy { .. }
        ));
        assert!(matches!(
            refused(SqlState::INSUFFICIENT_PRIVILEGE, None).nothing_done(),
            StoreError::Failed(_)
        ));
    }
}
