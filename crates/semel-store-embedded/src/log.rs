//! The log before it is trusted: SQLite reads it up to the first frame that does not check out and takes the rest for the
//! torn end that a crash leaves. A bit that flipped in the middle looks the same, and everything behind it would silently
//! be gone. So the log is read to its end first.
//!
//! What tells the two apart: a transaction is written only after the commit before it was synced. If a whole frame of this
//! log stands behind a damaged commit, that commit had reached the disk, and what is damaged was acknowledged. Damage to
//! the very last commit cannot be told from a torn one.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use semel_store::StoreError;

/// Bytes before the first frame.
const HEADER: usize = 32;
/// Bytes of a frame before its page: page number, size of the database if the frame ends a commit, salts, checksum.
const FRAME_HEADER: usize = 24;
/// Bytes of a page; every Semel database has pages of this size.
const PAGE: usize = 4096;

/// Bytes of the shortest log there is while the mark of an open store stands: the commit of its epoch is in it.
pub(crate) const ONE_FRAME: u64 = (HEADER + FRAME_HEADER + PAGE) as u64;

type Sums = (u32, u32);

/// Refuses a log in which something that was acknowledged is damaged.
pub(crate) fn require_whole(log: &Path) -> Result<(), StoreError> {
    let file = match File::open(log) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::Open(format!("cannot read {}: {e}", log.display()))),
    };
    match first_damage(BufReader::with_capacity(1 << 20, file)) {
        Ok(None) => Ok(()),
        Ok(Some(frame)) => Err(StoreError::Corrupt(format!(
            "{}: frame {frame} does not check out, but later commits stand behind it",
            log.display()
        ))),
        Err(e) => Err(StoreError::Open(format!("cannot read {}: {e}", log.display()))),
    }
}

/// The first frame that is damaged although a commit that contains it was synced.
fn first_damage(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let mut before = (word(&header, 24), word(&header, 28));
    let header_is_whole = checksum((0, 0), &header[..24]) == before;
    let mut salts: Option<[u8; 8]> = header_is_whole.then(|| eight(&header[16..24]));
    // An unreadable header makes SQLite ignore the whole log: it counts as a damaged commit of its own.
    let mut damaged = (!header_is_whole).then_some(0);
    let mut committed_since = !header_is_whole;
    let mut frame = vec![0; FRAME_HEADER + PAGE];
    let mut number = 0;
    while fill(&mut log, &mut frame)? {
        number += 1;
        let stored = (word(&frame, 16), word(&frame, 20));
        let computed = checksum(checksum(before, &frame[..8]), &frame[FRAME_HEADER..]);
        let whole = computed == stored && salts.is_none_or(|salts| salts == frame[8..16]);
        match damaged {
            Some(first) if whole && committed_since => return Ok(Some(first)),
            None if !whole => damaged = Some(number),
            _ => {}
        }
        if damaged.is_some() {
            committed_since |= word(&frame, 4) != 0;
            // Without a header the first frame says which log this is.
            salts.get_or_insert_with(|| eight(&frame[8..16]));
        }
        before = stored;
    }
    Ok(None)
}

/// Fills the buffer, or says that the end came first.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.try_into().expect("eight bytes are eight bytes")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

/// SQLite's checksum: two sums over pairs of words, in the byte order of the machine that made the log.
fn checksum((mut first, mut second): Sums, bytes: &[u8]) -> Sums {
    let native = |four: &[u8]| u32::from_ne_bytes(four.try_into().expect("half of eight bytes"));
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(native(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(native(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}
