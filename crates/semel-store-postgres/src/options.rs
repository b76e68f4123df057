//! The settings of a PostgreSQL store.

use std::sync::Arc;
use std::time::Duration;

use semel_store::Clock;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The time the store goes by: the database's own if absent. Tests pass one that they move themselves.
    pub clock: Option<Arc<dyn Clock>>,
    /// What this node is called in `semel nodes`.
    pub node_name: String,
    /// Where other nodes and people reach it; empty if nowhere.
    pub node_address: String,
    /// Another way to the database for the connection that listens; the store's own if absent. Notifications do not come
    /// through a pooler that gives every transaction another connection.
    pub listen_url: Option<String>,
    /// Whether opening may change the schema. Otherwise it must be up to date.
    pub migrate: bool,
    /// Most connections at once.
    pub connections: usize,
    /// Whether statements are prepared once per connection and the time-outs are set once per connection.
    ///
    /// A pooler that gives every transaction another connection (PgBouncer in transaction mode) cannot keep either. Without
    /// this, statements have no names and time-outs travel with each transaction.
    pub prepare: bool,
    /// How long the database works on one statement before it gives up.
    pub statement_timeout: Duration,
    /// How long it waits for a lock that another transaction holds.
    pub lock_timeout: Duration,
    /// How long a call takes at most, over new connections too, before it says that the store is busy, or that it is not
    /// known what happened. A command that waits for its turn behind another one takes twice as long at most.
    pub patience: Duration,
    /// Days ahead for which partitions are made; none at all if zero, and everything goes to the default one.
    pub days_ahead: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            node_name: "semel".into(),
            node_address: String::new(),
            listen_url: None,
            migrate: true,
            connections: 16,
            prepare: true,
            // A batch takes milliseconds. What takes longer than this waits for a disk or a lock that will not come.
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(2),
            // Longer than a statement may take, so that the database's answer, and not a guess, tells what happened.
            patience: Duration::from_secs(7),
            days_ahead: 7,
        }
    }
}
