//! Reading a whole run, in order, with little memory.

use std::sync::Arc;

use super::error::KeyIndexError;
use super::format::{BLOCK_BYTES, BLOCK_ENTRIES};
use super::range::Entry;
use super::run::Run;

/// Blocks read at once: 64 KiB keeps the disk streaming, and sixteen such buffers in a merge are still nothing.
const READ_AHEAD: usize = 16;

/// The entries of a run by hash and id, read as they are asked for.
pub struct RunEntries {
    run: Arc<Run>,
    next_block: usize,
    /// The entries read but not yet given out, last first.
    ready: Vec<Entry>,
    bytes: Vec<u8>,
}

impl RunEntries {
    pub(super) fn of(run: Arc<Run>) -> Self {
        let ready = Vec::with_capacity(READ_AHEAD * BLOCK_ENTRIES);
        Self { run, next_block: 0, ready, bytes: vec![0; READ_AHEAD * BLOCK_BYTES] }
    }

    fn refill(&mut self) -> Result<(), KeyIndexError> {
        let count = READ_AHEAD.min(self.run.blocks() - self.next_block);
        let bytes = &mut self.bytes[..count * BLOCK_BYTES];
        self.run.read_blocks(self.next_block, bytes)?;
        for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
            self.ready.extend(self.run.block(self.next_block + n, block)?.entries());
        }
        self.ready.reverse();
        self.next_block += count;
        Ok(())
    }
}

impl Iterator for RunEntries {
    type Item = Result<Entry, KeyIndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && self.next_block < self.run.blocks()
            && let Err(error) = self.refill()
        {
            // Nothing after a damaged block is given out: the reader must not take a part for the whole.
            self.next_block = self.run.blocks();
            self.ready.clear();
            return Some(Err(error));
        }
        self.ready.pop().map(Ok)
    }
}
