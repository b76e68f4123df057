//! A fresh store in a temporary directory, with a clock that the tests move.

use std::sync::Arc;

use async_trait::async_trait;
use semel_core::time::{Millis, Timestamp};
use semel_store::conformance::Harness;
use semel_store::{Clock, ManualClock, Store};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

/// Every harness starts at the same time, so that a history can be repeated.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) struct Embedded {
    dir: TempDir,
    clock: Arc<ManualClock>,
    options: Options,
    store: Option<Arc<EmbeddedStore>>,
}

impl Embedded {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Everything that is sealed, merged or loaded in pieces is so small that a short history goes through all of it.
    pub(crate) fn tiny() -> Self {
        Self::with(|options| {
            options.run_keys = 4;
            options.segment_jobs = 7;
            options.chunk_ids = 2;
            options.key_hash_bits = Some(6);
        })
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(START));
        let mut options =
            Options { clock: clock.clone() as Arc<dyn Clock>, reserve_bytes: 0, ..Options::default() };
        change(&mut options);
        let mut harness = Self { dir, clock, options, store: None };
        harness.open();
        harness
    }

    fn open(&mut self) {
        let store = EmbeddedStore::open(self.dir.path(), self.options.clone()).expect("the store opens");
        self.store = Some(Arc::new(store));
    }
}

#[async_trait]
impl Harness for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("a harness always has a store")
    }

    fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    async fn crash(&mut self) {
        // Nothing that is only in memory survives, whoever still holds the old store.
        self.store.take().expect("a harness always has a store").abandon();
        self.open();
    }
}
