//! Ranges of ids, entries, and how a run file is named after its range.

use std::fmt;

/// One entry of the index. The order, by hash and then by id, is the order within a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The keyed hash of queue and key.
    pub hash: u64,
    /// The job that was published under it.
    pub id: u64,
}

/// The ids above `lo`, up to and including `hi`. Exclusive below so that ranges chain: one's `hi` is the next one's `lo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdRange {
    /// The highest id that is *not* in the range.
    pub lo: u64,
    /// The highest id that is.
    pub hi: u64,
}

/// What is known of a run without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunInfo {
    /// The ids it covers.
    pub range: IdRange,
    /// Entries in it, those of rows deleted since included.
    pub entries: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

impl IdRange {
    /// The ids in `(lo, hi]`.
    pub fn new(lo: u64, hi: u64) -> Self {
        Self { lo, hi }
    }

    /// Whether the id is in the range.
    pub fn contains(self, id: u64) -> bool {
        self.lo < id && id <= self.hi
    }

    /// Whether every id of `other` is in this range.
    pub fn covers(self, other: Self) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    /// The name of the run file over this range; fixed width, so that a listing is in id order.
    pub(super) fn file_name(self) -> String {
        format!("{:020}-{:020}.run", self.lo, self.hi)
    }

    /// The range a run file's name states, if it is one.
    pub(super) fn of_file_name(name: &str) -> Option<Self> {
        let (lo, hi) = name.strip_suffix(".run")?.split_once('-')?;
        let range = Self { lo: lo.parse().ok()?, hi: hi.parse().ok()? };
        // Only the canonical spelling: `+1-2.run` parses, but is not ours.
        (range.lo < range.hi && range.file_name() == name).then_some(range)
    }
}

impl fmt::Display for IdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}]", self.lo, self.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_says_its_range_and_nothing_else_does() {
        let range = IdRange::new(7, u64::MAX);
        assert_eq!(IdRange::of_file_name(&range.file_name()), Some(range));
        for name in ["", ".run", "1-2.run", "00000000000000000002-00000000000000000001.run", "x-y.run"] {
            assert_eq!(IdRange::of_file_name(name), None, "{name}");
        }
        assert_eq!(IdRange::of_file_name("00000000000000000001-00000000000000000002.tmp"), None);
    }

    #[test]
    fn the_low_end_is_exclusive() {
        let range = IdRange::new(3, 5);
        assert_eq!([3, 4, 5, 6].map(|id| range.contains(id)), [false, true, true, false]);
    }
}
