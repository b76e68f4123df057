//! The outbox: publish in the application's own transaction.
//!
//! What is published in a transaction that commits is delivered, and nothing of one that does not. The publish is a row in
//! a table beside the application's own; a relay carries it to the server under the row's key. However often a relay
//! dies on the way, the server knows the key, and there is one job.
//!
//! ```no_run
//! # #[cfg(feature = "sqlx-postgres")]
//! # async fn example(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! use semel_outbox::{Publish, sqlx_postgres::publish};
//!
//! let mut transaction = pool.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (17)").execute(&mut *transaction).await?;
//! let wish = Publish::new("charges", &serde_json::json!({ "order": 17 }))?.key("charge-17").group("customer-4");
//! publish(&mut *transaction, &wish).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The table is in `ledger/<database>/outbox.sql`, [`schema`] here. A relay runs beside the application
//! (`relay::Relay`, feature `relay`) or as a process of its own (`semel relay`); several may run at once.
//!
//! If Semel itself keeps its jobs in the same PostgreSQL database, none of this is needed: `semel_client::sql` publishes in
//! the application's transaction directly.
//!
//! # What is promised
//! - **Nothing is lost**: a row is deleted only after the server has answered that it holds the job.
//! - **Nothing twice**: every try of a row has the same key. This holds as long as a relay comes back to a row that it
//!   published and did not delete within the key's window (72 h after the end of the job, by default).
//! - **Order per group**: rows of one queue and group are published in the order of their ids, however many relays there are.
//!   Ids follow the inserts, so transactions that must be in order have to wait for each other, as they do when they
//!   lock the customer or order that the group stands for.
//! - **A row that the server refuses is not lost either**: it is *dead*, says why, and is tried again when somebody asks.
//!   The rows of its group behind it wait for that; all others go on.

pub mod schema;

#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "rusqlite")]
pub mod rusqlite;
#[cfg(feature = "sqlx-mysql")]
pub mod sqlx_mysql;
#[cfg(feature = "sqlx-postgres")]
pub mod sqlx_postgres;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

mod columns;

pub use semel_client::{NotJson, Publish};
