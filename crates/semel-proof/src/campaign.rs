//! Several lives of one store: what was promised in one is asked for in the next.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_store::{Clock, ManualClock, Store, StoreError};
use semel_store_embedded::{EmbeddedStore, Options};

use crate::book::Book;
use crate::checker::{Report, check};
use crate::clock::ScaledClock;
use crate::dice::{Dice, mixed};
use crate::drain::{Drained, Stuck, drain};
use crate::history::{BadLine, Entry};
use crate::recorder::Recorder;
use crate::survey::Survey;
use crate::workload::block_on;

/// Store seconds to a second of the machine: leases, retries and windows then run out within a round.
const SPEED: u64 = 20;
/// Keys that are looked up after each round; the last reading looks up all of them.
const KEYS_PER_ROUND: usize = 4000;
/// Keys that gather before they are sealed into a run: few, so that every round seals some.
pub const RUN_KEYS: usize = 2000;

/// A store in a directory, and everything that was ever asked of it and answered.
pub struct Campaign {
    dir: PathBuf,
    seed: u64,
    clock: ScaledClock,
    book: Book,
    next: u64,
    round: u64,
}

/// What was found when the store was opened again.
pub struct Reopened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// How long it took to open.
    pub took: Duration,
}

impl Campaign {
    /// A campaign on the store in `dir`, which may not exist yet.
    pub fn new(dir: &Path, seed: u64) -> Self {
        let start = semel_store::SystemClock::new().now();
        let clock = ScaledClock::starting_at(start, SPEED);
        Self { dir: dir.to_owned(), seed, clock, book: Book::new(), next: 1, round: 0 }
    }

    /// The history so far.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The command that starts the child of the next round.
    pub fn child(&mut self, program: &Path) -> Command {
        self.round += 1;
        let mut command = Command::new(program);
        command.arg(&self.dir);
        command.arg("--seed").arg(mixed(self.seed ^ self.round).to_string());
        command.arg("--first").arg(self.next.to_string());
        command.arg("--clock").arg(self.clock.to_string());
        command.arg("--run-keys").arg(RUN_KEYS.to_string());
        command
    }

    /// Takes in what a child wrote before it was gone.
    pub fn absorb(&mut self, history: &str) -> Result<(), BadLine> {
        self.book.read(history)?;
        self.book.add(Entry::Restart { at: self.clock.now() });
        // The numbers of jobs are in their keys, so the next child can tell which are taken.
        let numbers = self.book.publishes().filter_map(|(subject, _)| number(subject.key()?));
        self.next = numbers.max().map_or(self.next, |n| self.next.max(n + 1));
        Ok(())
    }

    /// Opens the store again, as the next child would.
    pub fn reopen(&self) -> Result<Reopened, StoreError> {
        self.open(Arc::new(self.clock))
    }

    fn open(&self, clock: Arc<dyn Clock>) -> Result<Reopened, StoreError> {
        let began = Instant::now();
        let options = Options { clock, run_keys: RUN_KEYS, ..Options::default() };
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&self.dir, options)?);
        Ok(Reopened { store, took: began.elapsed() })
    }

    /// Reads the store and judges the whole history by it.
    pub fn judge(&self, store: &Arc<dyn Store>) -> Result<Report, StoreError> {
        let survey = block_on(Survey::read(store, self.some_keys()))?;
        Ok(check(&self.book, &survey))
    }

    /// Opens the store, works off what is left, and judges the whole history by what has become of every job.
    pub fn finish(&mut self) -> Result<(Report, Drained), Stuck> {
        let clock = Arc::new(ManualClock::at(self.clock.now()));
        let store = self.open(clock.clone())?.store;
        let (recorder, tape) = Recorder::in_memory();
        let drained = block_on(drain(&store, &recorder, &clock))?;
        self.book.read(&tape.take()).expect("a recorder writes what can be read");
        let mut survey = block_on(Survey::read(&store, self.keys()))?;
        survey.drained = true;
        block_on(store.close())?;
        Ok((check(&self.book, &survey), drained))
    }

    /// What the history has of the jobs of a report, for whoever has to find out what went wrong.
    pub fn explain(&self, report: &Report) -> String {
        let jobs = report.breaches.iter().flat_map(|breach| &breach.jobs);
        jobs.filter_map(|id| Some(format!("{id}: {:#?}", self.book.job(*id)?))).collect::<Vec<_>>().join("\n")
    }

    fn keys(&self) -> Vec<(QueueName, Key)> {
        let keyed = self
            .book
            .publishes()
            .filter_map(|(subject, _)| Some((subject.queue.clone(), subject.key()?.clone())));
        keyed.collect()
    }

    /// All keys of a young campaign; of an old one a sample that differs from round to round.
    fn some_keys(&self) -> Vec<(QueueName, Key)> {
        let mut keys = self.keys();
        if keys.len() > KEYS_PER_ROUND {
            let mut dice = Dice::new(mixed(self.seed ^ self.round ^ 0xc4ec));
            for at in 0..KEYS_PER_ROUND {
                let other = at + dice.index(keys.len() - at);
                keys.swap(at, other);
            }
            keys.truncate(KEYS_PER_ROUND);
        }
        keys
    }
}

fn number(key: &Key) -> Option<u64> {
    key.as_str().strip_prefix('k')?.parse().ok()
}
