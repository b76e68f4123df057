//! Writing a run file, so that it exists whole or not at all.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::bloom::Bloom;
use super::error::KeyIndexError;
use super::fault::{Faults, Halt, Stage, Work};
use super::format::{self, BLOCK_BYTES, BLOCK_ENTRIES, Header};
use super::options::Options;
use super::range::{Entry, IdRange};
use super::run::Run;
use super::worker::unlink;

/// Bytes gathered before they go to the file, which is then synced at once. One sync of a large run at its end would put
/// tens of megabytes in front of the commits of the truth, on the same disk; a megabyte passes unnoticed.
const SLICE_BYTES: usize = 1 << 20;

/// Where runs are written, and by what rules; each background thread has its own.
pub(super) struct Workshop {
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) faults: Faults,
    /// Set when the index is being closed: long work ends early, its temporary file is swept at the next open.
    pub(super) closing: std::sync::Arc<AtomicBool>,
}

/// A run on its way to the disk. Entries come in order; `finish` makes the file appear under its name, durable.
pub(super) struct RunWriter<'a> {
    shop: &'a mut Workshop,
    work: Work,
    range: IdRange,
    expected: u64,
    tmp: PathBuf,
    file: File,
    slice: Vec<u8>,
    block: Vec<Entry>,
    last: Option<Entry>,
    written: u64,
    half_reported: bool,
    fences: Vec<u64>,
    bloom: Bloom,
}

impl<'a> RunWriter<'a> {
    /// Starts the file over `range`, which will hold exactly `expected` entries.
    pub(super) fn create(
        shop: &'a mut Workshop,
        work: Work,
        range: IdRange,
        expected: u64,
    ) -> Result<Self, Halt> {
        let tmp = shop.dir.join(range.file_name()).with_extension("tmp");
        let file = File::create(&tmp).map_err(|source| KeyIndexError::io(&tmp, "create", source))?;
        shop.faults.reached(work, Stage::TmpCreated, &tmp)?;
        let bloom = Bloom::for_entries(expected, shop.options.bloom_bits);
        let mut slice = Vec::with_capacity(SLICE_BYTES + BLOCK_BYTES);
        // The header is known last; its place is kept with zeros, which no reader takes for one.
        slice.resize(BLOCK_BYTES, 0);
        Ok(Self {
            shop,
            work,
            range,
            expected,
            tmp,
            file,
            slice,
            block: Vec::with_capacity(BLOCK_ENTRIES),
            last: None,
            written: 0,
            half_reported: false,
            fences: Vec::new(),
            bloom,
        })
    }

    /// Adds the next entry.
    pub(super) fn push(&mut self, entry: Entry) -> Result<(), Halt> {
        if !self.range.contains(entry.id) || self.last.is_some_and(|last| last >= entry) {
            let what = format!("entry {entry:?} is out of order or out of the range {}", self.range);
            return Err(KeyIndexError::corrupt(&self.tmp, what).into());
        }
        self.last = Some(entry);
        self.written += 1;
        self.bloom.add(entry.hash);
        self.block.push(entry);
        if self.block.len() == BLOCK_ENTRIES {
            self.end_block()?;
        }
        if !self.half_reported && self.written * 2 >= self.expected {
            self.half_way()?;
        }
        Ok(())
    }

    /// Makes the run durable under its name and opens it. Until the rename nothing refers to the file; after it, the file
    /// is complete: there is no moment at which a crash leaves half a run.
    pub(super) fn finish(mut self) -> Result<Run, Halt> {
        if self.written != self.expected {
            let what = format!("{} entries arrived instead of {}", self.written, self.expected);
            return Err(KeyIndexError::corrupt(&self.tmp, what).into());
        }
        self.end_block()?;
        self.write_tail()?;
        self.reached(Stage::Written)?;
        self.sync()?;
        self.reached(Stage::Synced)?;
        // Read back before the rename, which may replace the only good copy of the range.
        let run = Run::open(&self.tmp, self.range, &self.shop.options)?;
        let path = self.shop.dir.join(self.range.file_name());
        fs::rename(&self.tmp, &path).map_err(|source| KeyIndexError::io(&self.tmp, "rename", source))?;
        self.secure_name().inspect_err(|halt| self.take_back(halt, &path))?;
        Ok(run.renamed(path))
    }

    fn secure_name(&mut self) -> Result<(), Halt> {
        self.reached(Stage::Renamed)?;
        sync_dir(&self.shop.dir)?;
        self.reached(Stage::DirSynced)
    }

    /// A run whose name may not be durable is not used, so it must not be found at the next open either, where it could
    /// overlap what was done instead. Only a compacted run stays: it has replaced the old one, and either is right.
    fn take_back(&self, halt: &Halt, path: &Path) {
        if matches!(halt, Halt::Failed(_)) && self.work != Work::Compact {
            unlink(path);
        }
    }

    fn end_block(&mut self) -> Result<(), Halt> {
        let Some(first) = self.block.first() else { return Ok(()) };
        let number = u32::try_from(self.fences.len()).expect("2^32 blocks would be 16 TiB");
        self.fences.push(first.hash);
        format::encode_block(self.range, number, &self.block, &mut self.slice);
        self.block.clear();
        if self.slice.len() >= SLICE_BYTES {
            self.write_slice()?;
            self.sync()?;
        }
        Ok(())
    }

    fn write_tail(&mut self) -> Result<(), Halt> {
        let fences: Vec<u8> = self.fences.iter().flat_map(|fence| fence.to_le_bytes()).collect();
        let filter = self.bloom.to_bytes();
        let header = Header {
            range: self.range,
            entries: self.written,
            filter_lines: self.bloom.lines(),
            hashed_by: self.shop.options.hashed_by,
            fences_sum: format::fences_checksum(self.range, &fences),
            filter_sum: format::filter_checksum(self.range, &filter),
        };
        self.slice.extend(fences);
        self.slice.extend(filter);
        self.write_slice()?;
        self.file
            .write_all_at(&header.encode(), 0)
            .map_err(|source| KeyIndexError::io(&self.tmp, "write", source).into())
    }

    fn write_slice(&mut self) -> Result<(), Halt> {
        if self.shop.closing.load(Ordering::Relaxed) {
            return Err(Halt::Ended);
        }
        self.file.write_all(&self.slice).map_err(|source| KeyIndexError::io(&self.tmp, "write", source))?;
        self.slice.clear();
        Ok(())
    }

    fn sync(&self) -> Result<(), Halt> {
        self.file.sync_data().map_err(|source| KeyIndexError::io(&self.tmp, "sync", source).into())
    }

    /// Half of the entries have come; under an injected fault they must be in the file, too.
    fn half_way(&mut self) -> Result<(), Halt> {
        self.half_reported = true;
        if self.shop.faults.0.is_some() {
            self.write_slice()?;
        }
        self.reached(Stage::HalfWritten)
    }

    fn reached(&mut self, stage: Stage) -> Result<(), Halt> {
        self.shop.faults.reached(self.work, stage, &self.tmp)
    }
}

/// Makes the names in the directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), KeyIndexError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|source| KeyIndexError::io(dir, "sync", source))
}
