//! Group commit over stores that do what each test needs, one step at a time.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a panic in a test is the report, in its helpers too")]

mod ending;
mod gate;
mod gathering;
mod pace;
#[path = "../support/mod.rs"]
mod support;
