//! The law of [`Store`] as stories, for every store alike.
//!
//! The stories are data, `ledger/scenarios.json`, because implementations in other languages play them too. What needs more
//! than one thread follows in Rust. A store subscribes with one test that calls [`check`]:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use semel_ledger::suite::{self, Harness};
//! use semel_ledger::{Memory, store::Store};
//!
//! struct InMemory(Memory);
//!
//! #[async_trait::async_trait]
//! impl Harness for InMemory {
//!     fn store(&self) -> Arc<dyn Store> {
//!         Arc::new(self.0.clone())
//!     }
//!     async fn pass(&self, span: Duration) {
//!         self.0.advance(span);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! suite::check(&InMemory(Memory::new())).await;
//! # }
//! ```

mod play;
mod races;
mod scenario;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::store::Store;

pub use scenario::{DownstreamKey, Fingerprinted, SCENARIOS, Scenarios};

/// What the suite needs of a store under test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store, its schema in place. Other entries may be in it.
    fn store(&self) -> Arc<dyn Store>;

    /// Lets this much time pass for every entry. Where the clock cannot be moved, all times of all entries move back by as
    /// much, which comes to the same.
    async fn pass(&self, span: Duration);

    /// Whether entries vanish by themselves at their expiry, or in larger pieces than prune is asked for, so that it may
    /// answer 0.
    fn expires_by_itself(&self) -> bool {
        false
    }
}

/// Plays all scenarios, then the races.
///
/// # Panics
/// With every scenario that came out differently, and the step at which it did.
pub async fn check(harness: &dyn Harness) {
    let scenarios = Scenarios::all();
    let mut failures = Vec::new();
    for scenario in &scenarios.scenarios {
        if let Err(failure) = play::play(harness, scenario).await {
            failures.push(format!("- {}: {failure}", scenario.name));
        }
    }
    let (failed, all) = (failures.len(), scenarios.scenarios.len());
    assert!(
        failures.is_empty(),
        "{failed} of {all} scenarios came out differently:\n{}",
        failures.join("\n")
    );
    races::check(&harness.store()).await;
}
