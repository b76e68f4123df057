//! SQLite's log, as far as a test must understand it to damage it on purpose.
//!
//! A header of 32 bytes, then frames: 24 bytes (page number, size of the database if this frame ends a commit, two salts,
//! two checksums) and a page. Salts and a running checksum tell the frames of this log from those of the one before it.

/// Bytes before the first frame.
const HEADER: usize = 32;
/// Bytes of a frame before its page.
const FRAME_HEADER: usize = 24;
/// Bytes of a page in Semel's databases.
const PAGE: usize = 4096;

/// The commits of a log: where each begins and ends in the file, first to last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commits(pub Vec<std::ops::Range<usize>>);

impl Commits {
    /// Finds the commits that SQLite would find.
    pub fn of(log: &[u8]) -> Self {
        let mut commits = Vec::new();
        let mut began = HEADER;
        let mut sums = (word(log, 24), word(log, 28));
        for (frame, bytes) in
            log.get(HEADER..).unwrap_or_default().chunks_exact(FRAME_HEADER + PAGE).enumerate()
        {
            let salted = bytes[8..16] == log[16..24];
            sums = checksum(checksum(sums, &bytes[..8]), &bytes[FRAME_HEADER..]);
            if !salted || sums != (word(bytes, 16), word(bytes, 20)) {
                break;
            }
            let end = HEADER + (frame + 1) * (FRAME_HEADER + PAGE);
            if word(bytes, 4) != 0 {
                commits.push(began..end);
                began = end;
            }
        }
        Self(commits)
    }

    /// How many commits are whole if only the first `length` bytes are left.
    pub fn within(&self, length: usize) -> usize {
        self.0.iter().filter(|commit| commit.end <= length).count()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |four| u32::from_be_bytes(four.try_into().expect("four bytes are four bytes")))
}

/// SQLite's checksum: two sums over pairs of words, in the byte order of the machine that made the log.
fn checksum((mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let (a, b) = pair.split_at(4);
        first = first.wrapping_add(native(a)).wrapping_add(second);
        second = second.wrapping_add(native(b)).wrapping_add(first);
    }
    (first, second)
}

fn native(four: &[u8]) -> u32 {
    u32::from_ne_bytes(four.try_into().expect("a pair of words is eight bytes"))
}
