//! The client against a real database, with each driver.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod shop;
mod with_sqlx;
mod with_tokio_postgres;
