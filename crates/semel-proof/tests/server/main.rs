//! Faults against the real server: `semel serve` as a process, asked over HTTP, broken from outside, judged by the checker.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod backlog;
mod clocks;
mod crowds;
mod disks;
mod endpoints;
mod exact;
mod kills;
mod power;
mod scarce;
mod stops;
mod syncs;

#[expect(dead_code, reason = "the faults of many nodes use the rest of it")]
#[path = "../kit/mod.rs"]
mod kit;
