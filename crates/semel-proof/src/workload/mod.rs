//! Work at full speed: publishes, leases, settles, extensions, cancellations, rescues and prunes, from several threads,
//! everything written down before it is asked and after it was answered.

mod plan;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use semel_store::{Store, StoreError};

pub use plan::{Item, Lane, digest};
pub use worker::{Worker, delivered, told};

use crate::history::Entry;
use crate::recorder::Recorder;

/// What a workload needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many threads work at once.
    pub workers: u64,
    /// The number of the first new job. Numbers below are those of earlier runs on the same store, and are repeated now
    /// and then.
    pub first: u64,
    /// How many steps each worker takes; `None` to go on until stopped.
    pub steps: Option<u64>,
}

/// What the workers of one process share.
pub struct Shared {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Where the history goes.
    pub recorder: Recorder,
    /// The number of the next new job.
    pub next: AtomicU64,
    /// Set when the workers are to end.
    pub stop: AtomicBool,
}

/// Why a worker ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Nobody reads the history any more.
    #[error("the history cannot be written: {0}")]
    History(#[from] io::Error),
    /// The store takes no more writes.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Shared {
    /// Makes the queues, and writes down what they promise.
    pub async fn prepare(store: Arc<dyn Store>, recorder: Recorder, first: u64) -> Result<Self, Ended> {
        recorder.write(Lane::ALL.map(|lane| Entry::Queue(lane.promise())))?;
        store.apply(Lane::ALL.map(Lane::put).to_vec()).await?;
        Ok(Self { store, recorder, next: AtomicU64::new(first), stop: AtomicBool::new(false) })
    }

    /// Tells the workers to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs the workers on threads of their own until all have ended; the first to end before its time ends the others.
pub fn run(shared: &Arc<Shared>, options: Options) -> Result<(), Ended> {
    let threads: Vec<_> = (0..options.workers)
        .map(|number| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                let ended = block_on(Worker::new(Arc::clone(&shared), options, number).run());
                shared.stop();
                ended
            })
        })
        .collect();
    let ends = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    ends.fold(Ok(()), Result::and)
}

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without drivers needs nothing from the system").block_on(future)
}
