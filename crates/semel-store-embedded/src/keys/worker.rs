//! The background threads of the index: everything that writes or unlinks a run file happens here.
//!
//! There are two, of the same kind. The sealer only seals, so that a full map never waits for a merge, which takes seconds
//! on a busy disk. The keeper merges, compacts and unlinks, in the order it is told.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::error::KeyIndexError;
use super::fault::{Faults, Halt, Stage, Work};
use super::map::KeyMap;
use super::merge::Merged;
use super::options::Options;
use super::range::{Entry, IdRange};
use super::run::Run;
use super::writer::{RunWriter, Workshop};

/// What a thread is asked to do.
pub(super) enum Task {
    /// Write the map as the run over the range.
    Seal { range: IdRange, map: Arc<KeyMap> },
    /// Write these adjacent runs as one.
    Merge { range: IdRange, inputs: Vec<Arc<Run>> },
    /// Write the run over the range anew, with these entries only.
    Compact { range: IdRange, survivors: Vec<Entry> },
    /// Unlink files that no segment refers to any more.
    Drop { paths: Vec<PathBuf> },
}

/// What came of a task: every task that ends gets exactly one.
pub(super) enum Report {
    /// A run was written and is durable.
    Done { work: Work, run: Arc<Run> },
    /// A run could not be written; everything is as it was.
    Failed { work: Work, range: IdRange, error: KeyIndexError },
    /// Files were unlinked, or will be at the next open.
    Dropped,
}

/// The caller's end of a thread.
pub(super) struct Worker {
    tasks: Option<Sender<Task>>,
    /// A mutex only to make the index `Sync`, so that lookups may be shared; it is never locked, always owned.
    reports: Mutex<Receiver<Report>>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    in_flight: usize,
}

impl Worker {
    /// Starts a thread. All threads of an index share `closing`: when one ends, they all do.
    pub(super) fn start(
        name: &str,
        dir: &Path,
        options: &Options,
        closing: &Arc<AtomicBool>,
    ) -> Result<Self, KeyIndexError> {
        let shop = Workshop {
            dir: dir.to_path_buf(),
            options: options.clone(),
            faults: Faults(options.fault),
            closing: Arc::clone(closing),
        };
        let (tasks, inbox) = channel();
        let (outbox, reports) = channel();
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || serve(shop, &inbox, &outbox))
            .map_err(|source| KeyIndexError::io(dir, "start a background thread for", source))?;
        let (reports, closing) = (Mutex::new(reports), Arc::clone(closing));
        Ok(Self { tasks: Some(tasks), reports, closing, thread: Some(thread), in_flight: 0 })
    }

    pub(super) fn submit(&mut self, task: Task) -> Result<(), KeyIndexError> {
        let sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        if !sent {
            return Err(KeyIndexError::Stopped);
        }
        self.in_flight += 1;
        Ok(())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// The next report, if one has come.
    pub(super) fn try_next(&mut self) -> Result<Option<Report>, KeyIndexError> {
        match self.receiver().try_recv() {
            Ok(report) => Ok(Some(self.received(report))),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(KeyIndexError::Stopped),
        }
    }

    /// Waits for the next report. Only to be called with something in flight.
    pub(super) fn wait_next(&mut self) -> Result<Report, KeyIndexError> {
        let report = self.receiver().recv().map_err(|_| KeyIndexError::Stopped)?;
        Ok(self.received(report))
    }

    fn received(&mut self, report: Report) -> Report {
        self.in_flight -= 1;
        report
    }

    fn receiver(&mut self) -> &mut Receiver<Report> {
        self.reports.get_mut().expect("never locked, so never poisoned")
    }
}

impl Drop for Worker {
    /// Ends the thread soon, finished or not: what it leaves is found again from the rows.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.tasks = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a background thread of the key index panicked");
        }
    }
}

fn serve(mut shop: Workshop, inbox: &Receiver<Task>, outbox: &Sender<Report>) {
    for task in inbox {
        if shop.closing.load(Ordering::Relaxed) {
            return;
        }
        let Some(report) = shop.perform(task) else {
            shop.closing.store(true, Ordering::Relaxed);
            return;
        };
        // Nobody to report to means that the index was dropped, and the thread's work is done.
        if outbox.send(report).is_err() {
            return;
        }
    }
}

impl Workshop {
    /// Does one task; nothing when the thread is to end here.
    fn perform(&mut self, task: Task) -> Option<Report> {
        let (work, range, written) = match task {
            Task::Seal { range, map } => (Work::Seal, range, self.seal(range, &map)),
            Task::Merge { range, inputs } => (Work::Merge, range, self.merge(range, &inputs)),
            Task::Compact { range, survivors } => (Work::Compact, range, self.compact(range, survivors)),
            Task::Drop { paths } => return self.unlink(&paths).ok().map(|()| Report::Dropped),
        };
        match written {
            Ok(run) => Some(Report::Done { work, run: Arc::new(run) }),
            Err(Halt::Failed(error)) => {
                self.sweep(range);
                Some(Report::Failed { work, range, error })
            }
            Err(Halt::Ended) => None,
        }
    }

    fn seal(&mut self, range: IdRange, map: &KeyMap) -> Result<Run, Halt> {
        let mut entries = map.sorted();
        if let Some(every) = self.options.lose_one_in {
            let mut n = 0;
            entries.retain(|_| {
                n += 1;
                n % every != 0
            });
        }
        self.write(Work::Seal, range, &entries)
    }

    fn compact(&mut self, range: IdRange, mut survivors: Vec<Entry>) -> Result<Run, Halt> {
        survivors.sort_unstable();
        self.write(Work::Compact, range, &survivors)
    }

    fn write(&mut self, work: Work, range: IdRange, entries: &[Entry]) -> Result<Run, Halt> {
        let mut writer = RunWriter::create(self, work, range, entries.len() as u64)?;
        for entry in entries {
            writer.push(*entry)?;
        }
        writer.finish()
    }

    fn merge(&mut self, range: IdRange, inputs: &[Arc<Run>]) -> Result<Run, Halt> {
        let expected = inputs.iter().map(|run| run.entries()).sum();
        let mut entries = Merged::of(inputs)?;
        let mut writer = RunWriter::create(self, Work::Merge, range, expected)?;
        while let Some(entry) = entries.next()? {
            writer.push(entry)?;
        }
        writer.finish()
    }

    /// Unlinks files that are no longer needed. One that resists is only garbage, and the next open tries again.
    fn unlink(&mut self, paths: &[PathBuf]) -> Result<(), Halt> {
        for (n, path) in paths.iter().enumerate() {
            let stage = if n == 0 { Stage::BeforeUnlink } else { Stage::HalfUnlinked };
            match self.faults.reached(Work::Drop, stage, path) {
                Ok(()) => unlink(path),
                Err(Halt::Failed(error)) => {
                    tracing::warn!(%error, "an old key run stays until the next open");
                }
                Err(Halt::Ended) => return Err(Halt::Ended),
            }
        }
        Ok(())
    }

    /// Removes the temporary file of work that failed; on a full disk the space is needed.
    fn sweep(&self, range: IdRange) {
        unlink(&self.dir.join(range.file_name()).with_extension("tmp"));
    }
}

/// Unlinks a file that may be gone already.
pub(super) fn unlink(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "cannot remove a file of the key index");
        }
        _ => {}
    }
}
