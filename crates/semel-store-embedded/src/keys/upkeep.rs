//! Keeping the index small: taking in what the background threads have done, merging, compacting, retiring, rebuilding.

use std::sync::Arc;

use super::error::KeyIndexError;
use super::fault::Work;
use super::index::KeyIndex;
use super::map::KeyMap;
use super::merge;
use super::range::{Entry, IdRange};
use super::run::Run;
use super::segment::{Body, Segment};
use super::worker::{Report, Task};

impl KeyIndex {
    /// Takes in what the background threads have finished, and gives them runs to merge. Never waits.
    ///
    /// Background work that fails is logged, counted and tried again; it is no error here, since nothing depends on it yet.
    /// A damaged run that a merge has met is named by [`damaged`](Self::damaged).
    pub fn poll(&mut self) -> Result<(), KeyIndexError> {
        while let Some(report) = self.next_report()? {
            self.take_in(report)?;
        }
        self.start_merge()
    }

    /// Waits until the background threads have nothing left to do: everything frozen is sealed and durable, or the error
    /// says why not.
    pub fn flush(&mut self) -> Result<(), KeyIndexError> {
        self.seal_failure = None;
        self.wait_until_idle()?;
        self.seal_failure.take().map_or(Ok(()), Err)
    }

    fn wait_until_idle(&mut self) -> Result<(), KeyIndexError> {
        self.submit_seal()?;
        while !self.is_idle() {
            // Whatever the keeper does can wait to be taken in, and the sealer may get more to do meanwhile.
            let busy = if self.sealer.is_idle() { &mut self.keeper } else { &mut self.sealer };
            let report = busy.wait_next()?;
            self.take_in(report)?;
        }
        Ok(())
    }

    /// Says that all rows with ids up to `floor` are gone, durably. Runs that hold nothing else are dropped.
    pub fn retire(&mut self, floor: u64) -> Result<(), KeyIndexError> {
        self.floor = self.floor.max(floor);
        self.gaps.retain(|gap| gap.hi > floor);
        let paths = self.chain.take_expired(floor);
        if paths.is_empty() { Ok(()) } else { self.keeper.submit(Task::Drop { paths }) }
    }

    /// Starts to rewrite a run to its survivors: the entries of all its keyed rows that still exist. The others MUST be gone
    /// durably. False when other work is under way; try again after a later [`poll`](Self::poll).
    pub fn begin_compact(&mut self, range: IdRange, survivors: Vec<Entry>) -> Result<bool, KeyIndexError> {
        self.run_over(range)?;
        all_within(range, &survivors)?;
        if self.maintaining {
            return Ok(false);
        }
        self.keeper.submit(Task::Compact { range, survivors })?;
        self.maintaining = true;
        Ok(true)
    }

    /// Puts the entries of all keyed rows in `range` in the place of a missing or damaged run. They are found at once, and
    /// durable after a [`flush`](Self::flush).
    ///
    /// The range is that of a run (say, one of [`damaged`](Self::damaged)), or the lower end of a gap: a large gap may be
    /// filled in pieces, from the bottom up.
    pub fn rebuild_run(&mut self, range: IdRange, entries: &[Entry]) -> Result<(), KeyIndexError> {
        all_within(range, entries)?;
        // A merge under way could still put the damaged run back.
        self.wait_until_idle()?;
        self.make_room()?;
        match self.gaps.iter_mut().find(|gap| gap.lo == range.lo && range.hi <= gap.hi) {
            Some(gap) => gap.lo = range.hi,
            None => _ = self.run_over(range)?,
        }
        self.gaps.retain(|gap| gap.lo < gap.hi);
        self.chain.put(Segment::frozen(range, KeyMap::of(entries)));
        self.submit_seal()
    }

    /// Waits until another map may be frozen.
    pub(super) fn make_room(&mut self) -> Result<(), KeyIndexError> {
        while self.chain.maps().count() >= self.options.max_frozen.max(1) {
            self.seal_failure = None;
            self.submit_seal()?;
            let report = self.sealer.wait_next()?;
            self.take_in(report)?;
            if let Some(failure) = self.seal_failure.take() {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Gives the sealer the oldest frozen map, unless it has it already. One at a time: if a newer one were
    /// written while an older one fails, a crash would leave a gap between them.
    pub(super) fn submit_seal(&mut self) -> Result<(), KeyIndexError> {
        let oldest = self.chain.iter_mut().find_map(|segment| match &mut segment.body {
            Body::Frozen { map, sealing } => Some((segment.range, map, sealing)),
            Body::Run(_) => None,
        });
        let Some((range, map, sealing @ false)) = oldest else { return Ok(()) };
        self.sealer.submit(Task::Seal { range, map: Arc::clone(map) })?;
        *sealing = true;
        Ok(())
    }

    /// Whether the background threads have nothing to do, as far as their reports were taken in.
    pub(super) fn is_idle(&self) -> bool {
        self.sealer.is_idle() && self.keeper.is_idle()
    }

    fn next_report(&mut self) -> Result<Option<Report>, KeyIndexError> {
        match self.sealer.try_next()? {
            Some(report) => Ok(Some(report)),
            None => self.keeper.try_next(),
        }
    }

    fn take_in(&mut self, report: Report) -> Result<(), KeyIndexError> {
        match report {
            Report::Done { work, run } => {
                self.maintaining &= work == Work::Seal;
                self.adopt(run)
            }
            Report::Failed { work, range, error } => {
                self.maintaining &= work == Work::Seal;
                self.note_failure(work, range, error);
                Ok(())
            }
            Report::Dropped => Ok(()),
        }
    }

    /// Puts a finished run in the place of what it was made from, whose files can then go.
    fn adopt(&mut self, run: Arc<Run>) -> Result<(), KeyIndexError> {
        self.merge_due = true;
        let kept = run.path().to_path_buf();
        let replaced = self.chain.put(Segment::of_run(run));
        let mut paths = self.chain.take_expired(self.floor);
        // A compacted run has taken the name of the old one: there is no other file to unlink.
        let old = replaced.iter().filter_map(Segment::run).map(|run| run.path().to_path_buf());
        paths.extend(old.filter(|path| *path != kept));
        if !paths.is_empty() {
            self.keeper.submit(Task::Drop { paths })?;
        }
        self.submit_seal()
    }

    fn note_failure(&mut self, work: Work, range: IdRange, error: KeyIndexError) {
        tracing::warn!(%error, ?work, %range, "background work of the key index failed");
        for segment in self.chain.iter_mut().filter(|segment| segment.range == range) {
            if let Body::Frozen { sealing, .. } = &mut segment.body {
                *sealing = false;
            }
        }
        self.failures += 1;
        if work == Work::Seal {
            self.seal_failure = Some(error);
        }
    }

    /// Looks for runs to merge, whenever the chain has changed. A merge that failed waits for the next change, too: trying
    /// at every commit would only heat the disk.
    fn start_merge(&mut self) -> Result<(), KeyIndexError> {
        if self.maintaining || !std::mem::take(&mut self.merge_due) {
            return Ok(());
        }
        let (fan, max) = (self.options.merge_fan, self.options.max_run_keys);
        let inputs = self.chain.stretches().find_map(|stretch| {
            let sizes: Vec<u64> = stretch.iter().map(|run| run.entries()).collect();
            merge::choose(&sizes, fan, max)
                .map(|window| stretch[window].iter().map(|run| Arc::clone(run)).collect())
        });
        let Some(inputs) = inputs else { return Ok(()) };
        self.submit_merge(inputs)
    }

    fn submit_merge(&mut self, inputs: Vec<Arc<Run>>) -> Result<(), KeyIndexError> {
        let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else { return Ok(()) };
        let range = IdRange::new(first.range().lo, last.range().hi);
        self.keeper.submit(Task::Merge { range, inputs })?;
        self.maintaining = true;
        Ok(())
    }
}

fn all_within(range: IdRange, entries: &[Entry]) -> Result<(), KeyIndexError> {
    if range.lo >= range.hi || entries.iter().any(|entry| !range.contains(entry.id)) {
        return Err(KeyIndexError::BadRange { range, what: "an entry lies outside of it" });
    }
    Ok(())
}
