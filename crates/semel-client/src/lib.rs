//! Semel for Rust applications.
//!
//! On a PostgreSQL store an application can publish and complete inside its own transaction, without an outbox. The module
//! `sql` does that, with the driver that the application has already: choose the feature `tokio-postgres` or `sqlx`.

#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
pub mod sql;
