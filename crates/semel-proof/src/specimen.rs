//! A store to be damaged: its files as they are at some moment, and what a reader finds in them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};
use semel_store::{Clock, ManualClock, Store, StoreError};
use semel_store_embedded::{EmbeddedStore, Options};

use crate::book::Book;
use crate::dice::Dice;
use crate::recorder::Recorder;
use crate::survey::Survey;
use crate::workload::{Ended, Lane, Shared, Worker, block_on};

/// Where the clock stands: 2026-01-01.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The files of a store, by their path in its directory.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A store at some moment, and what can be read from it.
pub struct Specimen {
    /// Its files.
    pub files: Files,
    /// The keys that were published.
    pub keys: Vec<(QueueName, Key)>,
    /// What is read from the files as they are.
    pub truth: Survey,
    now: Timestamp,
}

/// How the store that is to be damaged ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Closed, and the log moved into the database.
    Closed,
    /// Killed: the newest is in the log.
    Killed,
}

impl Specimen {
    /// Works some steps on a new store and takes its files.
    pub fn make(ending: Ending, seed: u64, steps: u64) -> Result<Self, Ended> {
        let home = scratch()?;
        let clock = Arc::new(ManualClock::at(START));
        let store = open(home.path(), clock.clone())?;
        let (recorder, tape) = Recorder::in_memory();
        let keys = block_on(async {
            let shared = Arc::new(Shared::prepare(Arc::clone(&store), recorder, 1).await?);
            let options = crate::workload::Options { seed, workers: 1, first: 1, steps: None };
            let mut worker = Worker::new(shared, options, 0);
            let mut dice = Dice::new(seed);
            for _ in 0..steps {
                worker.step().await??;
                clock.advance(Millis::from_millis(dice.below(60)));
            }
            // The last commit of a log cannot be told from one that was never finished, so it says nothing new.
            store.apply(Lane::ALL.map(Lane::put).to_vec()).await?;
            Ok::<_, Ended>(())
        })
        .map(|()| keys_of(&tape.take()))?;
        let killed = read_files(home.path())?;
        block_on(store.close())?;
        drop(store);
        let files = if ending == Ending::Killed { killed } else { without_log(home.path())? };
        let now = clock.now();
        let mut specimen = Self { files, keys, truth: Survey::default(), now };
        specimen.truth = specimen.examine(&specimen.files)?;
        Ok(specimen)
    }

    /// Writes files into a new directory, opens them as a store and reads everything.
    pub fn examine(&self, files: &Files) -> Result<Survey, StoreError> {
        let home = scratch().map_err(|e| StoreError::Open(e.to_string()))?;
        write_files(home.path(), files).map_err(|e| StoreError::Open(e.to_string()))?;
        let store = open(home.path(), Arc::new(ManualClock::at(self.now)))?;
        block_on(Survey::read(&store, self.keys.iter().cloned()))
    }

    /// Writes files into a new directory and has the store's own check look at them: true if it finds something wrong.
    pub fn check_objects(&self, files: &Files) -> io::Result<bool> {
        let home = scratch()?;
        write_files(home.path(), files)?;
        let report = semel_store_embedded::check::check(home.path(), &mut |_| ());
        Ok(report.map_or(true, |report| !report.is_sound()))
    }
}

fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, StoreError> {
    let options = Options { clock, run_keys: 100, reserve_bytes: 0, ..Options::default() };
    Ok(Arc::new(EmbeddedStore::open(dir, options)?))
}

fn keys_of(history: &str) -> Vec<(QueueName, Key)> {
    let mut book = Book::new();
    book.read(history).expect("a recorder writes what can be read");
    let keyed =
        book.publishes().filter_map(|(subject, _)| Some((subject.queue.clone(), subject.key()?.clone())));
    let mut keys: Vec<_> = keyed.collect();
    keys.sort();
    keys
}

/// The files after the whole log was moved into the database.
fn without_log(dir: &Path) -> Result<Files, Ended> {
    let moved = rusqlite::Connection::open(dir.join("semel.db"))
        .and_then(|conn| conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
    match moved {
        Ok(0) => Ok(read_files(dir)?),
        other => Err(io::Error::other(format!("the log could not be moved: {other:?}")).into()),
    }
}

/// A directory for files that need not survive anything: in memory, where a sync costs nothing, if there is such a place.
pub fn scratch() -> io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// All files below a directory.
pub fn read_files(dir: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).map_err(io::Error::other)?.to_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// Writes files below a directory.
pub fn write_files(dir: &Path, files: &Files) -> io::Result<()> {
    for (name, bytes) in files {
        let path = dir.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}
