//! The stores that every scenario runs on.

use std::path::Path;
use std::sync::Arc;

use semel_store::{Clock, MemoryStore, Store};
use semel_store_embedded::{EmbeddedStore, Options};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    Embedded,
}

impl Backend {
    /// Opens a store; one that outlives its process lives in `home`.
    pub(crate) fn open(self, home: &Path, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        match self {
            Self::Memory => Arc::new(MemoryStore::new(clock)),
            Self::Embedded => {
                let options = Options { clock, reserve_bytes: 0, ..Options::default() };
                Arc::new(EmbeddedStore::open(&home.join("data"), options).unwrap())
            }
        }
    }
}
