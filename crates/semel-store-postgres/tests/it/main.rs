//! The PostgreSQL store against the law, against the model, and against its own promises.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conformance;
mod encryption;
mod harness;
mod leases;
mod many_jobs;
mod migrations;
mod model;
mod moving;
mod opening;
mod outages;
mod peers;
mod pooler;
mod pruning;
mod races;
mod replicas;
mod restores;
mod sql_app;
mod sql_catches;
mod sql_harness;
mod sql_isolation;
mod sql_json;
mod sql_law;
mod sql_mixed;
mod sql_refusal;
mod sql_rules;
mod sql_store;
mod sql_surface;
mod sql_transactions;
