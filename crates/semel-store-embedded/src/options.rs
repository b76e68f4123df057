//! The settings of an embedded store.

use std::sync::Arc;

use semel_store::{Clock, SystemClock};

use crate::backlog::DEFAULT_CHUNK_IDS;

/// Free space that is kept for settles when new jobs are refused: a few minutes of them at full speed.
const DEFAULT_RESERVE: u64 = 64 * 1024 * 1024;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The time the store goes by.
    pub clock: Arc<dyn Clock>,
    /// When the disk has less free space than this many bytes, new jobs are refused and everything else goes on.
    pub reserve_bytes: u64,
    /// Keys that gather in memory before they are sealed into a run of the key index.
    pub run_keys: usize,
    /// Jobs published between two seals of the backlogs. It bounds what an open reads and what waits in memory.
    pub segment_jobs: usize,
    /// Ids a sealed chunk of a backlog lists, and ids of a queue that wait in memory.
    pub chunk_ids: usize,
    /// Tests only: keep so few bits of the keys' hashes that they collide all the time.
    #[doc(hidden)]
    pub key_hash_bits: Option<u32>,
    /// Tests only: a deliberately broken store, which the checker must catch.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            reserve_bytes: DEFAULT_RESERVE,
            run_keys: 131_072,
            segment_jobs: 131_072,
            chunk_ids: DEFAULT_CHUNK_IDS,
            key_hash_bits: None,
            sabotage: None,
        }
    }
}

/// Ways to break the store on purpose. Evidence that a checker passes is worth what the checker can catch.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Commits are not synced: a power cut loses what was acknowledged.
    NoSync,
    /// Any token settles.
    NoFencing,
    /// Keys are not looked up.
    NoDedup,
    /// The key index loses entries while it seals.
    LoseIndexEntry,
}
