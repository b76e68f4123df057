//! PostgreSQL, through `tokio-postgres` or `sqlx`. The rules are functions in the database (`ledger/postgres`), so that
//! every language and both drivers mean the same.

mod answer;
#[cfg(feature = "tokio-postgres")]
mod literal;
#[cfg(feature = "sqlx-postgres")]
mod sqlx;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_transaction;
mod state;
mod statement;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
#[cfg(feature = "tokio-postgres")]
mod transaction;

#[cfg(feature = "sqlx-postgres")]
pub use self::sqlx::SqlxPostgres;
#[cfg(feature = "tokio-postgres")]
pub use self::tokio_postgres::{Clients, Reconnecting, TokioPostgres};
#[cfg(feature = "tokio-postgres")]
pub use self::transaction::Transaction;

/// The migrations, oldest first: what `ensure_schema` runs, for those who run their own.
pub const MIGRATIONS: [&str; 1] = [include_str!("../../../../ledger/postgres/0001_ledger.sql")];

/// Optional, after the migrations: entries in partitions by the day on which they expire, for ledgers that forget millions a
/// day. What it costs is said in the file, `ledger/postgres/partitions.sql`.
pub const PARTITIONS: &str = include_str!("../../../../ledger/postgres/partitions.sql");
