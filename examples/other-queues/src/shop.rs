//! A handler that charges an order, in the application's own database.

use std::path::Path;

use rusqlite::Connection;
use semel_ledger::handler::{Disposition, Handler, Job};
use semel_ledger::sqlite::Sqlite;
use semel_ledger::{BuildError, Ledger, StoreError};
use serde::Deserialize;

/// What a job of this shop says.
#[derive(Debug, Clone, Deserialize)]
struct Order {
    order: String,
    cents: i64,
}

/// A shop, and its ledger in the same database: both change in one transaction.
#[derive(Debug, Clone)]
pub struct Shop {
    ledger: Ledger<Sqlite>,
}

/// Why a shop did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database of the application.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// The ledger's tables in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger's settings.
    #[error(transparent)]
    Ledger(#[from] BuildError),
}

impl Shop {
    /// Opens the shop's database.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS charge (order_id TEXT NOT NULL, cents INTEGER NOT NULL)",
        )?;
        let ledger = Ledger::builder(Sqlite::open(path)?, "billing").build()?;
        ledger.ensure_schema().await?;
        Ok(Self { ledger })
    }

    /// Charges an order, once, however often its job is delivered.
    pub async fn charge(&self, job: &Job<'_>) -> Disposition {
        let order: Order = match serde_json::from_slice(job.payload) {
            Ok(order) => order,
            Err(error) => return Disposition::Fail { error: error.to_string(), retryable: false },
        };
        let charge = |call| async move {
            self.ledger.transact(&call, move |connection| book(connection, &order)).await
        };
        Handler::new().compare_input().handle(job, charge).await
    }
}

/// The effect: a row, in the transaction of the ledger. It gives back the number of the charge.
fn book(connection: &Connection, order: &Order) -> Result<i64, rusqlite::Error> {
    connection
        .execute("INSERT INTO charge (order_id, cents) VALUES (?1, ?2)", (&order.order, order.cents))?;
    Ok(connection.last_insert_rowid())
}

/// How often an order was charged.
pub fn charges(path: &Path, order: &str) -> Result<u32, rusqlite::Error> {
    let count = "SELECT count(*) FROM charge WHERE order_id = ?1";
    Connection::open(path)?.query_row(count, [order], |row| row.get(0))
}
