//! Checking the index against the truth: `semel store check`.

use std::sync::Arc;

use super::bloom::Needle;
use super::error::KeyIndexError;
use super::index::KeyIndex;
use super::range::Entry;
use super::run::Run;
use super::segment::Segment;
use super::stream::RunEntries;

/// Entries compared with a run at a time: 16 MiB, and a run of the largest size is read twice.
const CHUNK: usize = 1 << 20;

/// Missing entries that are named; one is enough to know, a few help to see why.
const NAMED: usize = 10;

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries of the truth that were checked.
    pub checked: u64,
    /// Those that a lookup would not have found. Any at all is a fault: the key could be published twice.
    pub missing: u64,
    /// The first few of them.
    pub examples: Vec<Entry>,
    /// Entries of the index whose rows are gone; harmless, and expected until runs are compacted or dropped.
    pub garbage: u64,
}

impl Verified {
    /// Whether every entry of the truth can be found.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }
}

/// A check under way. Entries are pushed in the order of their ids; any other order is as right, but slow.
pub struct Verifier<'a> {
    index: &'a KeyIndex,
    run: Option<&'a Arc<Run>>,
    chunk: Vec<Entry>,
    result: Verified,
}

impl KeyIndex {
    /// Checks that every entry of the truth is found. Streams: memory does not grow with the index.
    pub fn verify(&self, truth: impl IntoIterator<Item = Entry>) -> Result<Verified, KeyIndexError> {
        let mut verifier = self.verifier();
        for entry in truth {
            verifier.push(entry)?;
        }
        verifier.finish()
    }

    /// A check for an owner whose reading of the truth can fail halfway.
    pub fn verifier(&self) -> Verifier<'_> {
        Verifier { index: self, run: None, chunk: Vec::new(), result: Verified::default() }
    }
}

impl<'a> Verifier<'a> {
    /// Checks one entry of the truth, now or with those that follow.
    pub fn push(&mut self, entry: Entry) -> Result<(), KeyIndexError> {
        self.result.checked += 1;
        let segment = self.index.chain.holder(entry.id);
        match segment.and_then(Segment::run) {
            Some(run) => self.push_to(run, entry),
            None => {
                // Not in a run: then in the map of its segment, or in the head if it is above them all.
                let map = segment.and_then(Segment::map).unwrap_or(&self.index.head);
                self.judge(entry, map.ids(entry.hash).any(|id| id == entry.id));
                Ok(())
            }
        }
    }

    /// Ends the check.
    pub fn finish(mut self) -> Result<Verified, KeyIndexError> {
        self.compare()?;
        let held: u64 = self.index.chain.iter().map(Segment::entries).sum();
        let held = held + self.index.head.len() as u64;
        self.result.garbage = held.saturating_sub(self.result.checked - self.result.missing);
        Ok(self.result)
    }

    fn push_to(&mut self, run: &'a Arc<Run>, entry: Entry) -> Result<(), KeyIndexError> {
        let same = self.run.is_some_and(|current| Arc::ptr_eq(current, run));
        if !same || self.chunk.len() == CHUNK {
            self.compare()?;
            self.run = Some(run);
        }
        self.chunk.push(entry);
        Ok(())
    }

    /// Compares the entries gathered with their run, as two sorted streams: asking for each would be a random read each.
    fn compare(&mut self) -> Result<(), KeyIndexError> {
        let Some(run) = self.run else { return Ok(()) };
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.sort_unstable();
        let mut held = RunEntries::of(Arc::clone(run)).peekable();
        for entry in &chunk {
            while held.next_if(|next| next.as_ref().is_ok_and(|next| next < entry)).is_some() {}
            let found = match held.peek() {
                Some(Ok(next)) => next == entry,
                Some(Err(_)) => return held.next().map_or(Ok(()), |error| error.map(|_| ())),
                None => false,
            };
            // An entry that its own filter denies is as lost as one that is not there.
            self.judge(*entry, found && run.bloom().may_contain(&Needle::of(entry.hash)));
        }
        chunk.clear();
        self.chunk = chunk;
        // The rest is read as well: a check is also the time to find a damaged block.
        held.try_for_each(|rest| rest.map(|_| ()))
    }

    fn judge(&mut self, entry: Entry, found: bool) {
        if found {
            return;
        }
        self.result.missing += 1;
        if self.result.examples.len() < NAMED {
            self.result.examples.push(entry);
        }
    }
}
