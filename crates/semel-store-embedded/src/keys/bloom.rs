//! The Bloom filter of a run: says "surely not here" for all but a few in a thousand of the keys that are not there.
//!
//! Blocked: a key has all its bits in one line of 512, so a question costs one cache miss and not eight. Within the line it
//! has one bit in each of the eight words, which makes the test a straight run of AND-NOT without a branch.

/// Words in a line: 8 x 64 bits are one cache line.
const WORDS: usize = 8;

/// Bits in a line.
const LINE_BITS: u64 = 512;

/// Bytes of a line on disk.
pub(super) const LINE_BYTES: usize = WORDS * 8;

/// One cache line of the filter; aligned, or a question could touch two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; WORDS]);

/// A hash made ready to be asked of many filters: where its line is, as a fraction of all lines, and its bits.
#[derive(Clone, Copy)]
pub(super) struct Needle {
    place: u32,
    bits: [u64; WORDS],
}

impl Needle {
    pub(super) const NONE: Self = Self { place: 0, bits: [0; WORDS] };

    pub(super) fn of(hash: u64) -> Self {
        let mixed = mix(hash);
        // Six bits choose the bit in a word: the lower 48 for the eight words, the upper 32 for the line. The 16 that serve
        // both matter only in filters of more than 2^16 lines, and little there.
        let bits = std::array::from_fn(|word| 1 << ((mixed >> (6 * word)) & 63));
        Self { place: (mixed >> 32) as u32, bits }
    }
}

/// The filter of one run.
pub(super) struct Bloom {
    lines: Vec<Line>,
}

impl Bloom {
    /// An empty filter for so many entries. There is always a line, so that asking needs no special case.
    pub(super) fn for_entries(entries: u64, bits_each: u32) -> Self {
        let lines = entries.saturating_mul(u64::from(bits_each)).div_ceil(LINE_BITS).max(1);
        let lines = usize::try_from(lines).expect("a filter is far smaller than the address space");
        Self { lines: vec![Line([0; WORDS]); lines] }
    }

    pub(super) fn add(&mut self, hash: u64) {
        let needle = Needle::of(hash);
        let at = self.line_of(&needle);
        for (word, bit) in self.lines[at].0.iter_mut().zip(needle.bits) {
            *word |= bit;
        }
    }

    /// Whether the hash may have been added; `false` is certain.
    #[inline]
    pub(super) fn may_contain(&self, needle: &Needle) -> bool {
        let line = &self.lines[self.line_of(needle)].0;
        let lacking = needle.bits.iter().zip(line).fold(0, |lacking, (bit, word)| lacking | (bit & !word));
        lacking == 0
    }

    /// Brings the lines of the needles into the cache. So short a loop has many more misses under way at once than one that
    /// also judges, and the judging that follows has none.
    #[inline]
    pub(super) fn fetch(&self, needles: &[Needle]) {
        let touched = needles.iter().fold(0, |all, needle| all ^ self.lines[self.line_of(needle)].0[0]);
        std::hint::black_box(touched);
    }

    /// The line of a hash: its place, scaled to the number of lines by a multiplication instead of a division.
    #[inline]
    fn line_of(&self, needle: &Needle) -> usize {
        ((u64::from(needle.place) * self.lines.len() as u64) >> 32) as usize
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.0).flat_map(u64::to_le_bytes).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let line = |bytes: &[u8]| {
            Line(std::array::from_fn(|word| {
                u64::from_le_bytes(bytes[8 * word..8 * word + 8].try_into().expect("eight bytes"))
            }))
        };
        Self { lines: bytes.chunks_exact(LINE_BYTES).map(line).collect() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

/// Spreads a hash over 64 bits (the finaliser of MurmurHash3). Full hashes do not need it; the short ones of tests do, and
/// it frees the filter from the order of the run, which is by the upper bits of the hash.
#[inline]
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyHasher;

    fn hashes(queue: u32, count: u64) -> Vec<u64> {
        let hasher = KeyHasher::new([3; 16]);
        (0..count).map(|i| hasher.hash(queue, &format!("order-{i}"))).collect()
    }

    fn filter(hashes: &[u64], bits: u32) -> Bloom {
        let mut bloom = Bloom::for_entries(hashes.len() as u64, bits);
        hashes.iter().for_each(|hash| bloom.add(*hash));
        bloom
    }

    fn hits(bloom: &Bloom, hashes: &[u64]) -> usize {
        hashes.iter().filter(|hash| bloom.may_contain(&Needle::of(**hash))).count()
    }

    #[test]
    fn what_was_added_is_always_found_also_after_the_disk() {
        let inside = hashes(1, 50_000);
        let bloom = filter(&inside, 16);
        assert_eq!(hits(&bloom, &inside), inside.len());
        assert_eq!(hits(&Bloom::from_bytes(&bloom.to_bytes()), &inside), inside.len());
    }

    #[test]
    fn sixteen_bits_a_key_let_two_in_a_thousand_through_at_most() {
        let bloom = filter(&hashes(1, 200_000), 16);
        let false_hits = hits(&bloom, &hashes(2, 1_000_000));
        // Fewer than the theory of one in a thousand allows would mean that the test asks the wrong thing.
        assert!((500..2_000).contains(&false_hits), "{false_hits} of a million");
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        assert_eq!(hits(&Bloom::for_entries(0, 16), &hashes(1, 1_000)), 0);
    }
}
