//! Publishing and completing inside the application's own PostgreSQL transaction.
//!
//! The application's tables and Semel's are in one database. What is published in a transaction is delivered once it
//! commits, and never if it does not; what a worker did for a job commits together with the job's completion.
//!
//! With the feature `tokio-postgres`:
//!
//! ```no_run
//! # #[cfg(feature = "tokio-postgres")]
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use semel_client::sql::{Draft, tokio_postgres::publish};
//!
//! let transaction = client.transaction().await?;
//! transaction.execute("INSERT INTO orders (id) VALUES (17)", &[]).await?;
//! let draft = Draft::new("orders", &serde_json::json!({ "order": 17 }))?.key("order-17");
//! let published = publish(&transaction, &draft).await?;
//! transaction.commit().await?;
//! println!("{} is {}", published.id, published.state);
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `sqlx`, in a worker:
//!
//! ```no_run
//! # #[cfg(feature = "sqlx")]
//! # async fn example(pool: &sqlx::PgPool, job: &str, lease: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use semel_client::sql::{Completion, Effect, sqlx::complete};
//!
//! let mut transaction = pool.begin().await?;
//! sqlx::query("INSERT INTO charges (order_id) VALUES (17)").execute(&mut *transaction).await?;
//! let done = Completion::new(job, lease).result(&serde_json::json!({ "charged": 100 }))?.effect(Effect::Applied);
//! complete(&mut *transaction, &done).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Both call the functions `semel.publish` and `semel.complete` of the database, which any language can:
//! `docs/operations/postgres-sql.md` describes them, the rights they need, and what they cost.

mod answer;
mod completion;
mod draft;
mod error;
#[cfg(feature = "sqlx")]
pub mod sqlx;
mod statement;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

pub use crate::{Effect, Jitter, Retry, State, Strategy};
pub use answer::{Completed, Published};
pub use completion::Completion;
pub use draft::Draft;
pub use error::{Code, Error, Refusal, Violation};
