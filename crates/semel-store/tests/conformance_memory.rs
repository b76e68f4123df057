//! The memory store keeps the law: it is the reference, so it is the first to be judged.
#![cfg(feature = "conformance")]

use std::sync::Arc;

use async_trait::async_trait;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::{ManualClock, MemoryStore, Store};

semel_store::conformance!(Memory::new);

struct Memory {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl Memory {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        Self { store: Arc::new(MemoryStore::new(clock.clone())), clock }
    }
}

#[async_trait]
impl Harness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    async fn crash(&mut self) {
        self.store.crash();
    }
}
