//! Throw-away servers for tests and benches: PostgreSQL above all, and MariaDB, Redis and RabbitMQ.
//!
//! - [`Shared`]: one cluster for a whole run of the tests, and a [`Database`] for each test. This is what most want.
//! - [`Cluster`]: a cluster of a test's own, to be killed, restarted, replicated ([`Replication`]), failed
//!   over, backed up and restored.
//! - [`Bouncer`]: PgBouncer in front of a cluster.
//! - [`SharedMaria`] and [`Maria`]: the same for MariaDB, with a [`MariaDatabase`] for each test.
//! - [`Redis`] and [`RabbitMq`]: one of a test's own.
//! - [`Proxy`]: a network that delays, cuts and swallows on command.
//! - [`Namespace`]: a machine of its own behind a cable that loses packets.
//! - [`twin`]: the test program once more, in a process that can be killed.
//!
//! ```no_run
//! use semel_cluster::{Shared, Template, sql_at};
//!
//! const SCHEMA: &str = "CREATE TABLE it (n int)";
//!
//! let shared = Shared::get()?;
//! let template = Template { name: "it", content: SCHEMA };
//! let database = shared.database(&template, |url| sql_at(url, &[SCHEMA]).map(drop))?;
//! assert_eq!(sql_at(database.url(), &["SELECT count(*) FROM it"])?, "0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything works as root, where servers run as the user of their package, and as a plain user. Nothing survives the
//! process that made it, however that ended; see `watchdog.sh`.

mod account;
mod backup;
mod bouncer;
mod cluster;
mod commons;
mod daemon;
mod database;
mod error;
mod home;
mod maria;
mod namespace;
mod password;
mod patience;
mod ports;
mod processes;
mod programs;
mod proxy;
mod rabbitmq;
mod redis;
mod replica;
mod server;
mod shared;
mod sql;
pub mod twin;
mod url;
mod watchdog;

pub use bouncer::Bouncer;
pub use cluster::Cluster;
pub use database::{Database, Template};
pub use error::Error;
pub use maria::{Maria, MariaDatabase, SharedMaria};
pub use namespace::Namespace;
pub use programs::server_version;
pub use proxy::{Proxy, Seen, Side, Trap};
pub use rabbitmq::RabbitMq;
pub use redis::Redis;
pub use replica::Replication;
pub use shared::Shared;
pub use sql::sql_at;
