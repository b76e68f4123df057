//! A watched store keeps the law of the store it watches: the wall passes every call on, and changes none.
#![cfg(feature = "conformance")]

use std::sync::Arc;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::observed::{Metrics, Observed};
use semel_store::{ManualClock, MemoryStore, Store};

semel_store::conformance!(Watched::new);

struct Watched {
    clock: Arc<ManualClock>,
    memory: Arc<MemoryStore>,
    store: Arc<Observed>,
}

impl Watched {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        let metrics = Metrics::register(&mut Registry::default());
        Self { store: Arc::new(Observed::new(memory.clone(), metrics)), memory, clock }
    }
}

#[async_trait]
impl Harness for Watched {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    async fn crash(&mut self) {
        self.memory.crash();
    }
}
