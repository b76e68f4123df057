//! What can go wrong inside the engine, and what callers hear of it.

use rusqlite::ErrorCode;
use semel_core::lifecycle::IllegalTransition;
use semel_core::refusal::Refusal;
use semel_store::StoreError;

use crate::keys::KeyIndexError;
use crate::record::Damage;

/// The whole batch failed: nothing of it may take effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Index(#[from] KeyIndexError),
    #[error("the {table} record of row {id}: {damage}")]
    Damaged { table: &'static str, id: String, damage: Damage },
    #[error("{0}")]
    Illegal(#[from] IllegalTransition),
    #[error("{0}")]
    Broken(String),
}

impl Fault {
    pub(crate) fn damaged(table: &'static str, id: impl std::fmt::Display, damage: Damage) -> Self {
        Self::Damaged { table, id: id.to_string(), damage }
    }

    /// What a caller hears when the batch was rolled back, so that nothing of it has happened.
    pub(crate) fn rolled_back(&self) -> StoreError {
        match self {
            Self::Sqlite(e) if e.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                StoreError::Full(e.to_string())
            }
            Self::Sqlite(e) => match e.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    StoreError::Corrupt(e.to_string())
                }
                _ => StoreError::Failed(e.to_string()),
            },
            Self::Damaged { .. } | Self::Index(_) => StoreError::Corrupt(self.to_string()),
            Self::Illegal(_) | Self::Broken(_) => StoreError::Corrupt(format!("a rule was broken: {self}")),
        }
    }

    /// Whether the disk itself failed, so that nothing more may be written before a reopen.
    pub(crate) fn is_disk_failure(&self) -> bool {
        matches!(self, Self::Sqlite(e) if !matches!(e.sqlite_error_code(), Some(ErrorCode::DiskFull)))
    }
}

/// Why one command did not go through: refused (the others go on), or the whole batch failed.
#[derive(Debug)]
pub(crate) enum No {
    Refused(Refusal),
    Fault(Fault),
}

impl<T: Into<Fault>> From<T> for No {
    fn from(fault: T) -> Self {
        Self::Fault(fault.into())
    }
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
