//! The embedded store against the law, against the model, and against its own promises.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conformance;
mod export;
mod format;
mod harness;
mod maintenance;
mod model;
mod upkeep;
