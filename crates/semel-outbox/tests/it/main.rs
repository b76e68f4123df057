//! The outbox in real databases, and the relay to a real server, over real sockets.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod base;
mod drivers;
mod mishaps;
mod order;
mod refused;
mod shop;
