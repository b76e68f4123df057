//! The shop: its orders, and its own database.

use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// How often an order was charged is for the rows to say, so no constraint keeps them from being two.
const TABLES: &str = "
    CREATE TABLE charge (
        id       INTEGER PRIMARY KEY,
        order_id INTEGER NOT NULL,
        cents    INTEGER NOT NULL
    );
    CREATE TABLE seen (
        order_id INTEGER PRIMARY KEY
    );";

/// What a job carries.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order: u32,
    pub(crate) cents: u32,
}

impl Order {
    pub(crate) fn numbered(order: u32) -> Self {
        Self { order, cents: 4990 }
    }

    /// The key under which it is published: of the business, and the same however often it is sent.
    pub(crate) fn key(self) -> String {
        format!("order-{}", self.order)
    }
}

/// Makes the shop's tables in a new file.
pub(crate) fn make(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(TABLES)
}

/// Inserts a charge, in whatever transaction the connection is in.
pub(crate) fn charge(connection: &Connection, order: Order) -> rusqlite::Result<i64> {
    let insert = "INSERT INTO charge (order_id, cents) VALUES (?1, ?2)";
    connection.execute(insert, (order.order, order.cents))?;
    Ok(connection.last_insert_rowid())
}

/// Notes that an order was seen, and commits; `false` if it had been seen before.
pub(crate) fn see(connection: &Connection, order: Order) -> rusqlite::Result<bool> {
    let insert = "INSERT INTO seen (order_id) VALUES (?1) ON CONFLICT DO NOTHING";
    connection.execute(insert, [order.order]).map(|inserted| inserted == 1)
}

/// How often an order was charged.
pub(crate) fn charges(path: &Path, order: u32) -> rusqlite::Result<u32> {
    let count = "SELECT count(*) FROM charge WHERE order_id = ?1";
    Connection::open(path)?.query_row(count, [order], |row| row.get(0))
}
