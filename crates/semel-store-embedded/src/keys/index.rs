//! The index as its owner sees it: entries go in, are frozen when durable, and the whole can be opened again.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::error::KeyIndexError;
use super::map::KeyMap;
use super::open::{self, Recovery};
use super::options::Options;
use super::range::{Entry, IdRange};
use super::segment::{Chain, Segment};
use super::worker::Worker;

/// The key index of one store. It has one owner, who writes; lookups may be shared.
///
/// The life of an entry: [`insert`](Self::insert) as its row is written, [`advance`](Self::advance) at the end of the batch,
/// then [`maybe_seal`](Self::maybe_seal) once the batch is durable, or [`truncate_above`](Self::truncate_above) if it was
/// rolled back. Only what is durable in the truth is ever sealed, so no run outlives the rows it speaks of.
pub struct KeyIndex {
    pub(super) options: Options,
    /// The newest entries, with ids above `base`.
    pub(super) head: KeyMap,
    /// Everything up to here is in the chain.
    base: u64,
    /// Every keyed row up to here has been inserted.
    offered: u64,
    pub(super) chain: Chain,
    /// Ranges without entries, to be rebuilt before anything can be looked up.
    pub(super) gaps: Vec<IdRange>,
    /// All rows up to here are gone.
    pub(super) floor: u64,
    pub(super) sealer: Worker,
    pub(super) keeper: Worker,
    /// A merge or a compaction is under way; there is one at a time, so that they never meet in one run.
    pub(super) maintaining: bool,
    /// The chain has changed since a merge was last looked for.
    pub(super) merge_due: bool,
    /// Why a map could not be sealed, until somebody is told.
    pub(super) seal_failure: Option<KeyIndexError>,
    pub(super) failures: u64,
}

impl KeyIndex {
    /// Opens the index in `dir`, which is made if it does not exist. `floor`: all rows with ids up to it are gone.
    ///
    /// The owner then MUST rebuild each range of [`Recovery::missing`] with [`rebuild_run`](Self::rebuild_run), and insert
    /// every keyed row above [`Recovery::sealed_to`], in id order. Until the former is done lookups are refused.
    pub fn open(dir: &Path, options: Options, floor: u64) -> Result<(Self, Recovery), KeyIndexError> {
        let (runs, recovery) = open::load(dir, &options, floor)?;
        let mut chain = Chain::default();
        for run in runs {
            chain.put(Segment::of_run(Arc::new(run)));
        }
        let closing = Arc::new(AtomicBool::new(false));
        let index = Self {
            head: new_head(&options),
            base: recovery.sealed_to,
            offered: recovery.sealed_to,
            chain,
            gaps: recovery.missing.clone(),
            floor,
            sealer: Worker::start("semel-key-seal", dir, &options, &closing)?,
            keeper: Worker::start("semel-key-keep", dir, &options, &closing)?,
            maintaining: false,
            merge_due: true,
            seal_failure: None,
            failures: 0,
            options,
        };
        Ok((index, recovery))
    }

    /// Removes every file of the index in `dir`, so that the next open asks for all rows. Nothing may have it open.
    pub fn wipe(dir: &Path) -> Result<(), KeyIndexError> {
        match fs::remove_dir_all(dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(KeyIndexError::io(dir, "remove", source))
            }
            _ => Ok(()),
        }
    }

    /// Adds an entry. Ids come in increasing order, also across restarts: one at or below an id that was offered before (or
    /// is covered by a run) is refused, because a run may speak for it already, and it would be found today and forgotten
    /// at the next open.
    pub fn insert(&mut self, hash: u64, id: u64) -> Result<(), KeyIndexError> {
        if id <= self.offered {
            return Err(KeyIndexError::OutOfOrder { id, offered_to: self.offered });
        }
        self.head.insert(Entry { hash, id });
        self.offered = id;
        Ok(())
    }

    /// Says that every row up to `id` has been offered: those without a key are not inserted, but a run may cover them.
    pub fn advance(&mut self, id: u64) {
        self.offered = self.offered.max(id);
    }

    /// Forgets the entries above `id`: their batch was rolled back. What is frozen was durable and is not concerned.
    pub fn truncate_above(&mut self, id: u64) {
        self.head.split_above(id);
        self.offered = self.offered.min(id).max(self.base);
    }

    /// To be called after each commit, with the highest id known to be durable. Takes in what the background threads have
    /// finished, and freezes the head when it is full. True when it did.
    ///
    /// Waits for the sealer only when `max_frozen` maps are waiting already; fails when they cannot be written, in which
    /// case nothing is lost, but the owner must take no more keys until a later call succeeds.
    pub fn maybe_seal(&mut self, durable_to: u64) -> Result<bool, KeyIndexError> {
        self.poll()?;
        if self.head.len() < self.options.run_keys {
            return Ok(false);
        }
        self.freeze(durable_to)
    }

    /// Freezes the head whatever its size, for an owner who wants the next open to be quick: before closing, or after very
    /// many rows without keys. True when there was anything to freeze.
    pub fn seal(&mut self, durable_to: u64) -> Result<bool, KeyIndexError> {
        self.poll()?;
        self.freeze(durable_to)
    }

    /// The id up to which everything is sealed or on its way there.
    pub fn frozen_to(&self) -> u64 {
        self.base
    }

    /// Bytes of memory held: maps, filters and fences.
    pub fn memory_bytes(&self) -> usize {
        self.head.memory_bytes() + self.chain.iter().map(Segment::memory_bytes).sum::<usize>()
    }

    /// How many entries there are. Those of jobs that were dropped count until their run is rewritten or dropped, too.
    pub fn entries(&self) -> u64 {
        self.head.len() as u64 + self.chain.iter().map(Segment::entries).sum::<u64>()
    }

    /// Bytes of the run files.
    pub fn file_bytes(&self) -> u64 {
        self.chain.runs().map(|run| run.info().bytes).sum()
    }

    /// How often background work has failed since the index was opened.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    fn freeze(&mut self, durable_to: u64) -> Result<bool, KeyIndexError> {
        // A row that was not offered yet must not be covered, and neither must one that a crash could take back.
        let hi = durable_to.min(self.offered);
        if hi <= self.base {
            return Ok(false);
        }
        self.make_room()?;
        let later = if self.offered > hi { self.head.split_above(hi) } else { Vec::new() };
        let map = std::mem::replace(&mut self.head, new_head(&self.options));
        later.into_iter().for_each(|entry| self.head.insert(entry));
        let range = IdRange::new(self.base, hi);
        self.base = hi;
        self.chain.put(Segment::frozen(range, map));
        self.submit_seal()?;
        Ok(true)
    }
}

/// An empty head with room for a full one and the batch that overfills it: growing would move every entry at once, inside
/// somebody's commit.
fn new_head(options: &Options) -> KeyMap {
    KeyMap::with_capacity(options.run_keys + options.run_keys / 8)
}
