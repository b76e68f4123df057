//! SQLite, through `rusqlite`: a ledger in the application's own database file.
//!
//! Its clock is the machine's: SQLite has no server, and all its users are on one machine.

mod rows;
mod store;
mod transaction;

pub use store::Sqlite;

/// The migrations, oldest first: what `ensure_schema` runs, for those who run their own.
pub const MIGRATIONS: [&str; 1] = [include_str!("../../../../ledger/sqlite/0001_ledger.sql")];
