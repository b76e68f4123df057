//! A source that makes trouble.

use std::path::Path;

use semel_core::ids::JobId;
use semel_store::StoreError;
use semel_store::transfer::{Holdings, Source};
use semel_store::working::Stored;
use semel_store_embedded::export::Export;

/// A directory that is read a few jobs at a time, with something that happens before each page.
pub(crate) struct Troubled<F> {
    export: Export,
    jobs: usize,
    pages: u32,
    trouble: F,
}

impl<F: FnMut(u32) -> Result<(), StoreError> + Send> Troubled<F> {
    /// Pages of so many jobs. `trouble` is told how many have been read.
    pub(crate) fn new(dir: &Path, jobs: usize, trouble: F) -> Box<Self> {
        Box::new(Self { export: Export::open(dir).unwrap(), jobs, pages: 0, trouble })
    }
}

impl<F: FnMut(u32) -> Result<(), StoreError> + Send> Source for Troubled<F> {
    fn holdings(&mut self) -> Result<Holdings, StoreError> {
        self.export.holdings()
    }

    fn jobs_after(&mut self, after: JobId, _: usize, most_bytes: usize) -> Result<Vec<Stored>, StoreError> {
        (self.trouble)(self.pages)?;
        self.pages += 1;
        self.export.jobs_after(after, self.jobs, most_bytes)
    }
}
