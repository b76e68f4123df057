//! What can go wrong with the key index, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use super::range::IdRange;

/// An error of the key index.
///
/// None of them means that a job was lost: the rows are the truth and the index can be rebuilt from them. All of them mean
/// that a publish with a key cannot be decided right now, and must not be guessed.
#[derive(Debug, thiserror::Error)]
pub enum KeyIndexError {
    /// The operating system refused a file operation.
    #[error("cannot {doing} {}: {source}; check the disk and the directory's permissions, then try again", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done to it, as a verb.
        doing: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A run file does not hold what was written to it.
    #[error("the key run {} is damaged ({what}); run `semel store rebuild-index DIR`", path.display())]
    Corrupt {
        /// The run file.
        path: PathBuf,
        /// What gave it away.
        what: String,
    },
    /// A range of ids has no run: lookups would miss keys, so they are refused until it is rebuilt.
    #[error(
        "the key index has no entries for the ids in {0}; rebuild them, or run `semel store rebuild-index DIR`"
    )]
    Gap(IdRange),
    /// An id was offered after a later one. If its range is sealed already, it would be forgotten at the next open.
    #[error("id {id} was offered to the key index after {offered_to}; run `semel store rebuild-index DIR`")]
    OutOfOrder {
        /// The id offered.
        id: u64,
        /// Everything up to here was offered before.
        offered_to: u64,
    },
    /// A range was named that is no run (or gap) of this index, or entries that do not belong to the range.
    #[error("{range} does not fit the key index: {what}; ask the index for its runs again")]
    BadRange {
        /// The range named by the caller.
        range: IdRange,
        /// Why it does not fit.
        what: &'static str,
    },
    /// A background thread is gone, which only a panic in it explains.
    #[error("a background thread of the key index has stopped; restart the process")]
    Stopped,
}

impl KeyIndexError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), doing, source }
    }

    pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), what: what.into() }
    }
}
