//! Asking the index.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::bloom::Needle;
use super::error::KeyIndexError;
use super::index::KeyIndex;
use super::range::{Entry, IdRange, RunInfo};
use super::run::Run;
use super::segment::probe_filters;
use super::stream::RunEntries;

/// Hashes probed together. Enough that the misses of one run overlap, few enough that what is prepared of them stays in the
/// first-level cache.
const PROBE_BATCH: usize = 64;

impl KeyIndex {
    /// Shows the ids under the hash, newest first, until `each` breaks. Disk is read only as far as that takes.
    ///
    /// The ids are candidates: their rows may have another key of the same hash, or may be gone.
    pub fn visit<B>(
        &self,
        hash: u64,
        mut each: impl FnMut(u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, KeyIndexError> {
        if let Some(gap) = self.gaps.first() {
            return Err(KeyIndexError::Gap(*gap));
        }
        let mut flow = self.head.ids(hash).try_for_each(&mut each);
        let needle = Needle::of(hash);
        for segment in self.chain.iter().rev() {
            if flow.is_break() {
                break;
            }
            flow = segment.visit(hash, &needle, &mut each)?;
        }
        Ok(flow)
    }

    /// Puts all ids under the hash in `out`, newest first.
    pub fn candidates(&self, hash: u64, out: &mut Vec<u64>) -> Result<(), KeyIndexError> {
        out.clear();
        let visited = self.visit::<()>(hash, |id| {
            out.push(id);
            ControlFlow::Continue(())
        });
        visited.map(|_| ())
    }

    /// Says for each hash whether there may be candidates; `false` is certain and costs no disk read. This decides the
    /// common case, a new key, and many at once are much cheaper than one after the other.
    pub fn probe(&self, hashes: &[u64], maybe: &mut Vec<bool>) {
        maybe.clear();
        // With a gap nothing is certain; the lookup that follows says why.
        maybe.resize(hashes.len(), !self.gaps.is_empty());
        for (hashes, maybe) in hashes.chunks(PROBE_BATCH).zip(maybe.chunks_mut(PROBE_BATCH)) {
            self.probe_batch(hashes, maybe);
        }
    }

    fn probe_batch(&self, hashes: &[u64], maybe: &mut [bool]) {
        for map in std::iter::once(&self.head).chain(self.chain.maps()) {
            for (hash, maybe) in hashes.iter().zip(maybe.iter_mut()) {
                *maybe |= map.contains(*hash);
            }
        }
        let mut needles = [Needle::NONE; PROBE_BATCH];
        for (needle, hash) in needles.iter_mut().zip(hashes) {
            *needle = Needle::of(*hash);
        }
        probe_filters(self.chain.runs().map(|run| run.bloom()), &needles[..hashes.len()], maybe);
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> Vec<RunInfo> {
        self.chain.runs().map(|run| run.info()).collect()
    }

    /// The runs in which damage was found since they were opened; [`rebuild_run`](Self::rebuild_run) repairs them.
    pub fn damaged(&self) -> Vec<IdRange> {
        self.chain.runs().filter(|run| run.is_damaged()).map(|run| run.range()).collect()
    }

    /// The entries of a run, by hash and id, read as they are asked for.
    pub fn run_entries(&self, range: IdRange) -> Result<RunEntries, KeyIndexError> {
        self.run_over(range).map(|run| RunEntries::of(Arc::clone(run)))
    }

    /// The entries of a run, all at once: 16 bytes each.
    pub fn read_run(&self, range: IdRange) -> Result<Vec<Entry>, KeyIndexError> {
        self.run_entries(range)?.collect()
    }

    pub(super) fn run_over(&self, range: IdRange) -> Result<&Arc<Run>, KeyIndexError> {
        self.chain.run(range).ok_or(KeyIndexError::BadRange { range, what: "there is no such run" })
    }
}
