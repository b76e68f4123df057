//! Scenarios: the whole server, on real sockets, against every store, with time that moves when the scenario says so.
//!
//! A scenario is an `async fn(&World)`; [`scenarios!`] makes a test of it for each backend. It knows the HTTP contract and
//! nothing of the store behind it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod kit;

mod ack_mode;
mod advice;
mod backpressure;
mod bad_input;
mod cross_site;
mod dead;
mod duplicates;
mod idle;
mod keys;
mod nodes;
mod observability;
mod operate;
mod order;
mod processes;
mod publish;
mod push;
mod queues;
mod retry;
mod schedules;
mod security;
mod settle;
mod simpleq;
mod two_queues;
mod work;
