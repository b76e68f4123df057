//! The chain of segments: which part of the index holds which ids.

use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use super::bloom::{Bloom, Needle};
use super::error::KeyIndexError;
use super::map::KeyMap;
use super::range::IdRange;
use super::run::Run;

/// A part of the index that takes no new entries.
pub(super) struct Segment {
    pub(super) range: IdRange,
    pub(super) body: Body,
}

/// Where the entries of a segment are.
pub(super) enum Body {
    /// In memory, waiting for the sealer.
    Frozen {
        map: Arc<KeyMap>,
        /// Whether the sealer has it; not after a failure, until it is tried again.
        sealing: bool,
    },
    /// In a file.
    Run(Arc<Run>),
}

impl Segment {
    pub(super) fn frozen(range: IdRange, map: KeyMap) -> Self {
        Self { range, body: Body::Frozen { map: Arc::new(map), sealing: false } }
    }

    pub(super) fn of_run(run: Arc<Run>) -> Self {
        Self { range: run.range(), body: Body::Run(run) }
    }

    pub(super) fn run(&self) -> Option<&Arc<Run>> {
        match &self.body {
            Body::Run(run) => Some(run),
            Body::Frozen { .. } => None,
        }
    }

    pub(super) fn map(&self) -> Option<&KeyMap> {
        match &self.body {
            Body::Run(_) => None,
            Body::Frozen { map, .. } => Some(map),
        }
    }

    /// Shows the ids under the hash, newest first, until told to stop.
    pub(super) fn visit<B>(
        &self,
        hash: u64,
        needle: &Needle,
        each: &mut impl FnMut(u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, KeyIndexError> {
        match &self.body {
            Body::Run(run) => run.visit(hash, needle, each),
            Body::Frozen { map, .. } => Ok(map.ids(hash).try_for_each(each)),
        }
    }

    pub(super) fn entries(&self) -> u64 {
        match &self.body {
            Body::Run(run) => run.entries(),
            Body::Frozen { map, .. } => map.len() as u64,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match &self.body {
            Body::Run(run) => run.memory_bytes(),
            Body::Frozen { map, .. } => map.memory_bytes(),
        }
    }
}

/// The segments, oldest first. Their ranges are disjoint, so an id is in one place only, and newest first is simply
/// last segment first.
#[derive(Default)]
pub(super) struct Chain(Vec<Segment>);

impl Chain {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.0.iter_mut()
    }

    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        self.0.iter().filter_map(Segment::run)
    }

    pub(super) fn maps(&self) -> impl Iterator<Item = &KeyMap> {
        self.0.iter().filter_map(Segment::map)
    }

    /// The run over exactly this range.
    pub(super) fn run(&self, range: IdRange) -> Option<&Arc<Run>> {
        self.runs().find(|run| run.range() == range)
    }

    /// The segment that holds this id, if any.
    pub(super) fn holder(&self, id: u64) -> Option<&Segment> {
        let at = self.0.partition_point(|segment| segment.range.hi < id);
        self.0.get(at).filter(|segment| segment.range.contains(id))
    }

    /// Puts the segment in the place of all that it covers, and returns those.
    pub(super) fn put(&mut self, segment: Segment) -> Vec<Segment> {
        let covered = self.covered_by(segment.range);
        self.0.splice(covered, [segment]).collect()
    }

    /// Takes out the runs at or below `floor`.
    pub(super) fn take_expired(&mut self, floor: u64) -> Vec<PathBuf> {
        let expired = |segment: &mut Segment| segment.range.hi <= floor && segment.run().is_some();
        self.0
            .extract_if(.., expired)
            .filter_map(|segment| segment.run().map(|run| run.path().to_path_buf()))
            .collect()
    }

    /// The stretches of sound runs without a gap or a frozen map between them, newest stretch first.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Vec<&Arc<Run>>> {
        let mergeable = |segment: &Segment| segment.run().is_some_and(|run| !run.is_damaged());
        self.0
            .chunk_by(move |a, b| a.range.hi == b.range.lo && mergeable(a) && mergeable(b))
            .rev()
            .map(|stretch| stretch.iter().filter_map(Segment::run).collect())
    }

    fn covered_by(&self, range: IdRange) -> Range<usize> {
        let start = self.0.partition_point(|segment| segment.range.lo < range.lo);
        let end = self.0.partition_point(|segment| segment.range.hi <= range.hi);
        start..end.max(start)
    }
}

/// Asks the filter of every run about many hashes at once.
///
/// Run by run over the whole batch, and without a branch on the answer: each question is a cache miss, and only independent
/// ones wait at the same time.
pub(super) fn probe_filters<'a>(
    filters: impl Iterator<Item = &'a Bloom>,
    needles: &[Needle],
    maybe: &mut [bool],
) {
    for filter in filters {
        filter.fetch(needles);
        for (needle, maybe) in needles.iter().zip(maybe.iter_mut()) {
            *maybe |= filter.may_contain(needle);
        }
    }
}
