//! A sealed run: an immutable file of sorted entries, with its fences and its Bloom filter in memory.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::bloom::{Bloom, Needle};
use super::error::KeyIndexError;
use super::format::{self, BLOCK_BYTES, Block, Header};
use super::options::Options;
use super::range::{IdRange, RunInfo};

/// A run that was opened and whose header, fences and filter were found intact. Blocks are checked whenever they are read:
/// a disk may damage them later, too.
pub(super) struct Run {
    path: PathBuf,
    file: File,
    header: Header,
    fences: Vec<u64>,
    bloom: Bloom,
    damaged: AtomicBool,
}

impl Run {
    /// Opens the file at `path`, which is (or will be, when it is still under its temporary name) the run over `range`.
    pub(super) fn open(path: &Path, range: IdRange, options: &Options) -> Result<Self, KeyIndexError> {
        let file = File::open(path).map_err(|source| KeyIndexError::io(path, "open", source))?;
        let length = file.metadata().map_err(|source| KeyIndexError::io(path, "measure", source))?.len();
        let header = read_header(path, &file, range, length)?;
        agree(&header, options).map_err(|what| KeyIndexError::corrupt(path, what))?;

        let fences = read_at(path, &file, header.fences_at(), header.fences_bytes())?;
        let filter = read_at(path, &file, header.filter_at(), header.filter_bytes())?;
        let intact = format::fences_checksum(range, &fences) == header.fences_sum
            && format::filter_checksum(range, &filter) == header.filter_sum;
        if !intact {
            return Err(KeyIndexError::corrupt(path, "the checksum of its fences or its filter is wrong"));
        }
        let fences =
            fences.chunks_exact(8).map(|fence| u64::from_le_bytes(fence.try_into().expect("eight bytes")));
        let fences = fences.collect();
        let bloom = Bloom::from_bytes(&filter);
        Ok(Self { path: path.to_path_buf(), file, header, fences, bloom, damaged: AtomicBool::new(false) })
    }

    /// The same run under its final name.
    pub(super) fn renamed(mut self, path: PathBuf) -> Self {
        self.path = path;
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn range(&self) -> IdRange {
        self.header.range
    }

    pub(super) fn entries(&self) -> u64 {
        self.header.entries
    }

    pub(super) fn blocks(&self) -> usize {
        self.fences.len()
    }

    pub(super) fn bloom(&self) -> &Bloom {
        &self.bloom
    }

    pub(super) fn info(&self) -> RunInfo {
        RunInfo { range: self.range(), entries: self.entries(), bytes: self.header.file_bytes() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bloom.memory_bytes() + 8 * self.fences.len()
    }

    /// Whether a damaged block was met since the run was opened.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Shows the ids under the hash, newest first, until told to stop; reads a block only when it gets there.
    /// `needle` is that of the hash.
    pub(super) fn visit<B>(
        &self,
        hash: u64,
        needle: &Needle,
        each: &mut impl FnMut(u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, KeyIndexError> {
        if !self.bloom.may_contain(needle) {
            return Ok(ControlFlow::Continue(()));
        }
        let mut bytes = [0; BLOCK_BYTES];
        for number in self.blocks_of(hash).rev() {
            self.read_blocks(number, &mut bytes)?;
            for id in self.block(number, &bytes)?.ids(hash) {
                if let ControlFlow::Break(found) = each(id) {
                    return Ok(ControlFlow::Break(found));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The blocks that may hold the hash. One hash may fill many, and begin in the block before the first that starts with it.
    fn blocks_of(&self, hash: u64) -> Range<usize> {
        let start = self.fences.partition_point(|fence| *fence < hash).saturating_sub(1);
        let end = self.fences.partition_point(|fence| *fence <= hash);
        start..end
    }

    /// Fills `bytes` with the blocks from `first` on, unchecked.
    pub(super) fn read_blocks(&self, first: usize, bytes: &mut [u8]) -> Result<(), KeyIndexError> {
        let at = BLOCK_BYTES as u64 * (1 + first as u64);
        self.file.read_exact_at(bytes, at).map_err(|source| self.noting(read_failed(&self.path, source)))
    }

    /// Checks the bytes of one block.
    pub(super) fn block<'a>(&self, number: usize, bytes: &'a [u8]) -> Result<Block<'a>, KeyIndexError> {
        let number = u32::try_from(number).expect("2^32 blocks would be 16 TiB");
        Block::check(self.range(), number, bytes)
            .map_err(|what| self.noting(KeyIndexError::corrupt(&self.path, what)))
    }

    /// Remembers damage, so that the run is not merged into others and can be named for repair.
    fn noting(&self, error: KeyIndexError) -> KeyIndexError {
        if matches!(error, KeyIndexError::Corrupt { .. }) && !self.damaged.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, range = %self.range(), "damage found in the key index");
        }
        error
    }
}

fn read_header(path: &Path, file: &File, range: IdRange, length: u64) -> Result<Header, KeyIndexError> {
    let corrupt = |what| KeyIndexError::corrupt(path, what);
    if length < BLOCK_BYTES as u64 {
        return Err(corrupt(format!("it is {length} bytes long, too short for a header")));
    }
    let header = Header::decode(&read_at(path, file, 0, BLOCK_BYTES as u64)?, range).map_err(corrupt)?;
    if header.file_bytes() != length {
        return Err(corrupt(format!("it is {length} bytes long instead of {}", header.file_bytes())));
    }
    Ok(header)
}

/// A run made under another secret would answer every question with a confident no.
fn agree(header: &Header, options: &Options) -> Result<(), String> {
    if header.hashed_by != options.hashed_by {
        return Err("its keys were hashed under another secret".into());
    }
    Ok(())
}

fn read_at(path: &Path, file: &File, at: u64, length: u64) -> Result<Vec<u8>, KeyIndexError> {
    let length = usize::try_from(length).expect("checked against the length of the file, which fits memory");
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).map_err(|source| read_failed(path, source))?;
    Ok(bytes)
}

/// A file shorter than it was is damage, not a failure of the system: reading again will not help.
fn read_failed(path: &Path, source: io::Error) -> KeyIndexError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => KeyIndexError::corrupt(path, "it is shorter than its header says"),
        _ => KeyIndexError::io(path, "read", source),
    }
}
