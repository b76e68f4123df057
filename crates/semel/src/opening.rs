//! Opening a store from a command line: blocking, with what a person needs to know when it fails.

use std::path::Path;
use std::sync::Arc;

use semel_store::Clock;
use semel_store_embedded::{EmbeddedStore, Options};
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Opens the store in `dir`, making an empty one if there is none.
pub(crate) fn store(dir: &Path, options: Options) -> Result<EmbeddedStore, Failure> {
    EmbeddedStore::open(dir, options).map_err(Failure::store(dir))
}

/// The settings of a store that goes by `clock`, and is otherwise as everybody has it.
pub(crate) fn options(clock: Arc<dyn Clock>) -> Options {
    Options { clock, ..Options::default() }
}

/// A runtime of one thread: the store has a thread of its own, and a command line has nothing else to do meanwhile.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().build().map_err(Failure::io("start a runtime"))
}
