//! The throw-away clusters themselves.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod bouncer;
mod cluster;
mod namespace;
mod process;
mod proxy;
mod replica;
mod services;
mod shared;
