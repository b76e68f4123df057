//! The ledger on real stores, with real processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod details;
mod memory;
mod modes;
mod mysql;
mod postgres;
mod process;
mod redis;
mod sqlite;
mod trouble;
