//! The memory store keeps the law.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_ledger::Memory;
use semel_ledger::store::Store;
use semel_ledger::suite::{self, Harness};

struct InMemory(Memory);

#[async_trait]
impl Harness for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn pass(&self, span: Duration) {
        self.0.advance(span);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_the_law() {
    suite::check(&InMemory(Memory::new())).await;
}
