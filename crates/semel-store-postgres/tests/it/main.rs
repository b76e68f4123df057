//! The PostgreSQL store against the law, against the model, and against its own promises.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conformance;
mod encryption;
mod harness;
mod migrations;
mod model;
mod moving;
mod opening;
mod peers;
mod outages;
mod pooler;
mod replicas;
mod sql_harness;
mod sql_law;
mod sql_refusal;
mod sql_store;
