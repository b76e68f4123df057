//! MariaDB and MySQL, through `sqlx`. The rules are decided here ([`crate::rules`]); the statements (`ledger/mysql`) see to
//! it that what was decided counts only if the entry is still as it was read.

mod batch;
mod failure;
mod row;
mod statement;
mod store;
mod transaction;

use sqlx::MySqlPool;

/// The migrations, oldest first: what `ensure_schema` runs, for those who run their own.
pub const MIGRATIONS: [&str; 1] = [include_str!("../../../../ledger/mysql/0001_ledger.sql")];

/// A ledger in MariaDB or MySQL, through `sqlx`.
#[derive(Debug, Clone)]
pub struct SqlxMySql {
    pool: MySqlPool,
}

impl SqlxMySql {
    /// With the application's own pool.
    pub fn new(pool: MySqlPool) -> Self {
        Self { pool }
    }

    /// The pool it was made with.
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }
}
