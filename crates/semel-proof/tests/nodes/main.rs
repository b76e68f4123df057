//! Faults against many nodes: three `semel serve --store` as processes on a real PostgreSQL cluster, asked over HTTP by
//! clients that use all of them, broken from outside, judged by the checker.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod cables;
mod clocks;
mod collisions;
mod commits;
mod connections;
mod failover;
mod kills;
mod listening;
mod migrations;
mod partitions;
mod pooler;
mod stage;

#[expect(dead_code, reason = "the faults of one server use the rest of it")]
#[path = "../kit/mod.rs"]
mod kit;
