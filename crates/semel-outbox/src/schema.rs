//! The table, for each database, as SQL that may be run again at any time. Put it among your migrations, or have
//! `semel relay schema --apply` run it.

/// For PostgreSQL 14 and later.
pub const POSTGRES: &str = include_str!("../../../ledger/postgres/outbox.sql");

/// For MySQL 8.0.13 and MariaDB 10.6 and later; one statement.
pub const MYSQL: &str = include_str!("../../../ledger/mysql/outbox.sql");

/// For SQLite.
pub const SQLITE: &str = include_str!("../../../ledger/sqlite/outbox.sql");
