//! Files of the archive: one JSON line per job, compressed with zstd.
//!
//! A file has its name only when it is whole and on disk: it is written under another name, synced, renamed, and the
//! directory is synced. Whoever finds `2026-11-15-1.jsonl.zst` can rely on it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use semel_core::job::Job;
use semel_core::queue::QueueConfig;

use crate::api::JobView;

/// What a file is called while it is written. There is one writer per directory, so what an earlier one left behind when
/// it was killed is overwritten by the next.
const UNFINISHED: &str = ".unfinished";

const SUFFIX: &str = ".jsonl.zst";

/// The level at which zstd is faster than a disk and still compresses JSON to a fraction.
const LEVEL: i32 = 3;

/// Writes jobs into a new file for `day` in `dir`, which is made if it is not there. Returns when the file is on disk.
pub(super) fn write(dir: &Path, day: &str, jobs: &[Job], config: &QueueConfig) -> io::Result<PathBuf> {
    make_dir(dir)?;
    let unfinished = dir.join(UNFINISHED);
    let mut encoder = zstd::Encoder::new(File::create(&unfinished)?, LEVEL)?;
    // With a checksum a damaged archive is found out when it is read.
    encoder.include_checksum(true)?;
    for job in jobs {
        encoder.write_all(&line(job, config)?)?;
    }
    encoder.finish()?.sync_all()?;
    let path = dir.join(format!("{day}-{}{SUFFIX}", next_number(dir, day)?));
    fs::rename(&unfinished, &path)?;
    sync_dir(dir)?;
    Ok(path)
}

/// A job as the API shows it, on one line. A payload may have line breaks between its values; spaces mean the same there,
/// and inside of JSON strings line breaks are always escaped.
fn line(job: &Job, config: &QueueConfig) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&JobView::of(job, config))?;
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

/// The number after the largest that is there: numbers of files that were moved away are not used again on the same day
/// unless they were the last.
fn next_number(dir: &Path, day: &str) -> io::Result<u64> {
    let mut largest = 0;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(day)?.strip_prefix('-')?.strip_suffix(SUFFIX));
        largest = largest.max(number.and_then(|digits| digits.parse().ok()).unwrap_or(0));
    }
    Ok(largest + 1)
}

/// Makes a directory, and has its name on disk too: a file in a directory that a power cut takes away is lost.
fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    dir.ancestors().skip(1).filter(|parent| parent.is_dir()).try_for_each(sync_dir)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
