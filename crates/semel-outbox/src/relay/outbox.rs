//! The outbox as people see it: how much waits, and what the server refused.

use std::fmt;
use std::sync::Arc;

use super::Error;
use super::source::{self, Source};

/// An outbox in a database.
#[derive(Clone)]
pub struct Outbox(pub(super) Arc<dyn Source>);

/// A row that the server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dead {
    /// Its number.
    pub id: i64,
    /// Where it was to go.
    pub queue: String,
    /// Its key.
    pub key: String,
    /// Its group.
    pub group: Option<String>,
    /// When it was refused, as RFC 3339, by the database's clock.
    pub at: String,
    /// The server's code.
    pub code: String,
    /// What the server said.
    pub reason: String,
    /// Rows of its group that wait for it.
    pub behind: u64,
}

/// How many rows an outbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Rows to be carried.
    pub waiting: u64,
    /// Rows that the server refused.
    pub dead: u64,
}

/// The columns of a dead row, in the order of the fields of [`Dead`].
pub(super) type Columns =
    (i64, String, String, Option<String>, Option<String>, Option<String>, Option<String>, i64);

impl Dead {
    pub(super) fn of((id, queue, key, group, at, code, reason, behind): Columns) -> Self {
        let (at, code, reason) =
            (at.unwrap_or_default(), code.unwrap_or_default(), reason.unwrap_or_default());
        Self { id, queue, key, group, at, code, reason, behind: u64::try_from(behind).unwrap_or(0) }
    }
}

impl Depth {
    /// What [`Depth::of`] reads: how many rows there are, and how many of them are dead.
    pub(super) const COUNT: &'static str = "SELECT count(*), count(dead_at) FROM semel_outbox";

    pub(super) fn of((all, dead): (i64, i64)) -> Self {
        let count = |count| u64::try_from(count).unwrap_or(0);
        Self { waiting: count(all - dead), dead: count(dead) }
    }
}

impl Outbox {
    /// Connects to the database: `postgres://`, `mysql://`, `mariadb://`, or `sqlite:` and the path of a file.
    pub async fn open(database: &str) -> Result<Self, Error> {
        Ok(Self(source::open(database).await?))
    }

    /// How many rows there are.
    pub async fn depth(&self) -> Result<Depth, Error> {
        self.0.depth().await
    }

    /// Dead rows, oldest first, at most this many.
    pub async fn dead(&self, limit: u32) -> Result<Vec<Dead>, Error> {
        self.0.dead(limit).await
    }

    /// Has dead rows tried again: all, or these. Says how many there were.
    pub async fn retry(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        self.0.retry(ids).await
    }

    /// Deletes dead rows, all or these; they will never be published. Says how many there were.
    pub async fn discard(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        self.0.discard(ids).await
    }

    /// Makes the table, if it is not there.
    pub async fn ensure_schema(&self) -> Result<(), Error> {
        self.0.ensure_schema().await
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbox")
    }
}
