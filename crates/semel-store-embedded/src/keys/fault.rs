//! Faults on purpose: the places where the background work can be stopped, so that tests can crash at each of them.

use std::io;
use std::path::Path;

use super::error::KeyIndexError;

/// The kinds of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A frozen map becomes a run.
    Seal,
    /// Several runs become one.
    Merge,
    /// A run is rewritten to what survives of it.
    Compact,
    /// Files of runs no longer needed are unlinked.
    Drop,
}

/// How far a piece of work had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The temporary file exists and is empty.
    TmpCreated,
    /// About half of the entries are in the file.
    HalfWritten,
    /// Everything is written, nothing is synced.
    Written,
    /// The file is synced under its temporary name.
    Synced,
    /// It has its final name; the directory is not synced.
    Renamed,
    /// Everything is durable; the index does not know yet.
    DirSynced,
    /// The index has forgotten the runs; their files are still there.
    BeforeUnlink,
    /// Some of them are unlinked.
    HalfUnlinked,
}

/// A place in the background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The kind of work.
    pub work: Work,
    /// How far it had come.
    pub stage: Stage,
}

/// What happens at the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The thread stops dead, leaving everything as it is: the process was killed.
    Kill,
    /// The operation fails once, as on a full disk; the thread lives on.
    Fail,
}

/// A fault to be injected the first time a step is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub step: Step,
    /// What.
    pub how: How,
}

impl Step {
    /// Every step there is.
    pub fn all() -> impl Iterator<Item = Self> {
        use Stage::{
            BeforeUnlink, DirSynced, HalfUnlinked, HalfWritten, Renamed, Synced, TmpCreated, Written,
        };
        let writing = [TmpCreated, HalfWritten, Written, Synced, Renamed, DirSynced];
        let dropping = [BeforeUnlink, HalfUnlinked].map(|stage| Self { work: Work::Drop, stage });
        [Work::Seal, Work::Merge, Work::Compact]
            .into_iter()
            .flat_map(move |work| writing.map(|stage| Self { work, stage }))
            .chain(dropping)
    }
}

/// Why background work did not finish.
#[derive(Debug)]
pub(super) enum Halt {
    /// It failed; the index is told.
    Failed(KeyIndexError),
    /// The thread ends here, without a word: by an injected kill, or because the index is being closed.
    Ended,
}

impl From<KeyIndexError> for Halt {
    fn from(error: KeyIndexError) -> Self {
        Self::Failed(error)
    }
}

/// The fault still to come, if any.
#[derive(Debug)]
pub(super) struct Faults(pub(super) Option<Fault>);

impl Faults {
    /// Called wherever work reaches a step; `path` is what it works on.
    pub(super) fn reached(&mut self, work: Work, stage: Stage, path: &Path) -> Result<(), Halt> {
        let Some(fault) = self.0.take_if(|fault| fault.step == Step { work, stage }) else { return Ok(()) };
        match fault.how {
            How::Kill => Err(Halt::Ended),
            How::Fail => Err(KeyIndexError::io(path, "write", io::Error::other("injected fault")).into()),
        }
    }
}
