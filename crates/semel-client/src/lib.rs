//! Semel for Rust applications.
//!
//! On a PostgreSQL store an application can publish and complete inside its own transaction, without an outbox: see [`sql`].

pub mod sql;
