//! The bytes of a run file. Numbers are little-endian.
//!
//! ```text
//!   header    4096 bytes: what the file is, and the checksums of fences and filter
//!   blocks    4096 bytes each: 255 entries (hash, id) sorted, how many are used, which block it is, checksum
//!   fences    the first hash of each block, 8 bytes each
//!   filter    the Bloom filter, lines of 64 bytes
//! ```
//!
//! Every byte is under some checksum, padding included, and every checksum is seeded with the range and the place, so that
//! a good block in the wrong place (of another run, or another offset) does not pass for this one.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bloom::LINE_BYTES;
use super::hasher::HasherId;
use super::range::{Entry, IdRange};

/// Bytes of a block, and of the header; the page size of every disk and kernel that matters.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Entries in a full block.
pub(super) const BLOCK_ENTRIES: usize = 255;

const ENTRY_BYTES: usize = 16;
const COUNT_AT: usize = BLOCK_ENTRIES * ENTRY_BYTES;
const INDEX_AT: usize = COUNT_AT + 4;
const SUM_AT: usize = BLOCK_BYTES - 8;

const MAGIC: [u8; 8] = *b"SEMELRUN";
const VERSION: u64 = 1;

/// The places of checksums that are not those of a block, as seeds; blocks count from zero and never get so far.
const HEADER_PLACE: u64 = u64::MAX;
const FENCES_PLACE: u64 = u64::MAX - 1;
const FILTER_PLACE: u64 = u64::MAX - 2;

/// What a run file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) range: IdRange,
    pub(super) entries: u64,
    pub(super) filter_lines: u64,
    pub(super) hashed_by: HasherId,
    pub(super) fences_sum: u64,
    pub(super) filter_sum: u64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let fields = [
            u64::from_le_bytes(MAGIC),
            VERSION,
            BLOCK_BYTES as u64,
            self.range.lo,
            self.range.hi,
            self.entries,
            self.blocks(),
            self.filter_lines,
            self.hashed_by.bits,
            self.hashed_by.tag,
            self.fences_sum,
            self.filter_sum,
        ];
        let mut bytes: Vec<u8> = fields.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.resize(SUM_AT, 0);
        let sum = checksum(self.range, HEADER_PLACE, &bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads the header of the file that is named after `range`.
    pub(super) fn decode(bytes: &[u8], range: IdRange) -> Result<Self, String> {
        let field = |n: usize| u64_at(bytes, 8 * n);
        if field(0) != u64::from_le_bytes(MAGIC) {
            return Err("it does not begin like a key run".into());
        }
        if field(1) != VERSION || field(2) != BLOCK_BYTES as u64 {
            return Err(format!("its format {} is not known to this version", field(1)));
        }
        if u64_at(bytes, SUM_AT) != checksum(range, HEADER_PLACE, &bytes[..SUM_AT]) {
            return Err("the checksum of its header is wrong".into());
        }
        let header = Self {
            range: IdRange { lo: field(3), hi: field(4) },
            entries: field(5),
            filter_lines: field(7),
            hashed_by: HasherId { bits: field(8), tag: field(9) },
            fences_sum: field(10),
            filter_sum: field(11),
        };
        if header.range != range || header.blocks() != field(6) {
            return Err("its header contradicts its name or itself".into());
        }
        Ok(header)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.entries.div_ceil(BLOCK_ENTRIES as u64)
    }

    pub(super) fn fences_at(&self) -> u64 {
        BLOCK_BYTES as u64 * (1 + self.blocks())
    }

    pub(super) fn fences_bytes(&self) -> u64 {
        8 * self.blocks()
    }

    pub(super) fn filter_at(&self) -> u64 {
        self.fences_at() + self.fences_bytes()
    }

    pub(super) fn filter_bytes(&self) -> u64 {
        self.filter_lines * LINE_BYTES as u64
    }

    /// The length of the whole file; a file of any other length is damaged.
    pub(super) fn file_bytes(&self) -> u64 {
        self.filter_at() + self.filter_bytes()
    }
}

pub(super) fn fences_checksum(range: IdRange, bytes: &[u8]) -> u64 {
    checksum(range, FENCES_PLACE, bytes)
}

pub(super) fn filter_checksum(range: IdRange, bytes: &[u8]) -> u64 {
    checksum(range, FILTER_PLACE, bytes)
}

/// Appends the block with this number to `out`.
pub(super) fn encode_block(range: IdRange, number: u32, entries: &[Entry], out: &mut Vec<u8>) {
    debug_assert!(entries.len() <= BLOCK_ENTRIES);
    let start = out.len();
    for entry in entries {
        out.extend(entry.hash.to_le_bytes());
        out.extend(entry.id.to_le_bytes());
    }
    out.resize(start + COUNT_AT, 0);
    let count = u32::try_from(entries.len()).expect("a block holds 255 entries");
    out.extend(count.to_le_bytes());
    out.extend(number.to_le_bytes());
    let sum = checksum(range, u64::from(number), &out[start..]);
    out.extend(sum.to_le_bytes());
}

/// A block that has been read and found intact.
pub(super) struct Block<'a> {
    bytes: &'a [u8],
    entries: usize,
}

impl<'a> Block<'a> {
    /// Checks the bytes of the block with this number.
    pub(super) fn check(range: IdRange, number: u32, bytes: &'a [u8]) -> Result<Self, String> {
        let entries = u32_at(bytes, COUNT_AT) as usize;
        let intact = u64_at(bytes, SUM_AT) == checksum(range, u64::from(number), &bytes[..SUM_AT]);
        if !intact || u32_at(bytes, INDEX_AT) != number || entries > BLOCK_ENTRIES {
            return Err(format!("the checksum of block {number} is wrong"));
        }
        Ok(Self { bytes, entries })
    }

    pub(super) fn entry(&self, n: usize) -> Entry {
        Entry { hash: self.hash(n), id: u64_at(self.bytes, n * ENTRY_BYTES + 8) }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.entries).map(|n| self.entry(n))
    }

    /// The ids under the hash, newest first.
    pub(super) fn ids(&self, hash: u64) -> impl Iterator<Item = u64> + '_ {
        let start = self.partition(|at| at < hash);
        let end = self.partition(|at| at <= hash);
        (start..end).rev().map(|n| self.entry(n).id)
    }

    fn hash(&self, n: usize) -> u64 {
        u64_at(self.bytes, n * ENTRY_BYTES)
    }

    /// The first entry whose hash does not satisfy `before`; binary search over the sorted bytes.
    fn partition(&self, before: impl Fn(u64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.hash(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

fn checksum(range: IdRange, place: u64, bytes: &[u8]) -> u64 {
    let seed = range.lo.rotate_left(17) ^ range.hi.rotate_left(34) ^ place;
    xxh3_64_with_seed(bytes, seed)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: IdRange = IdRange { lo: 10, hi: 99 };

    fn entries() -> Vec<Entry> {
        (0..BLOCK_ENTRIES as u64).map(|n| Entry { hash: n / 3, id: 20 + n }).collect()
    }

    #[test]
    fn a_block_gives_back_its_entries() {
        let mut bytes = Vec::new();
        encode_block(RANGE, 4, &entries(), &mut bytes);
        assert_eq!(bytes.len(), BLOCK_BYTES);
        let block = Block::check(RANGE, 4, &bytes).unwrap();
        assert_eq!(block.entries().collect::<Vec<_>>(), entries());
        assert_eq!(block.ids(2).collect::<Vec<_>>(), [28, 27, 26]);
        assert_eq!(block.ids(85).collect::<Vec<_>>(), Vec::<u64>::new());
    }

    #[test]
    fn a_block_in_the_wrong_place_is_refused() {
        let mut bytes = Vec::new();
        encode_block(RANGE, 4, &entries(), &mut bytes);
        assert!(Block::check(RANGE, 5, &bytes).is_err());
        assert!(Block::check(IdRange { lo: 10, hi: 98 }, 4, &bytes).is_err());
    }

    #[test]
    fn a_header_gives_back_its_fields_to_its_own_name_only() {
        let header = Header {
            range: RANGE,
            entries: 256,
            filter_lines: 9,
            hashed_by: HasherId { bits: 64, tag: 5 },
            fences_sum: 6,
            filter_sum: 7,
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), BLOCK_BYTES);
        assert_eq!(Header::decode(&bytes, RANGE), Ok(header));
        assert!(Header::decode(&bytes, IdRange { lo: 10, hi: 100 }).is_err());
    }
}
