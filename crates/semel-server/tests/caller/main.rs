//! The webhook caller against real sockets on loopback: workers that answer, break, drip, lie and redirect.
#![expect(clippy::unwrap_used, reason = "a panic in a test is the report, in its helpers too")]

mod answers;
mod broken;
mod names;
mod network;
mod reuse;
mod secure;
mod worker;
