//! Checkpoints: moving pages from the log into the database, so that the log can start over.
//!
//! A thread of its own does nearly all of it while commits go on. But a log only starts over when nothing of it is left to
//! move, and under full load the thread is always a little behind; so once the log is long enough, and the thread has just
//! caught up to within a few pages, the engine moves those few itself between two commits.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use semel_store::StoreError;

use crate::schema;

/// Pages the log grows before the thread is sent to move them: 2 MiB. Its sync of the database slows the commits that meet
/// it, the longer the more was moved: one of 16 MiB made the p99 of publishes half as long again.
const STEP_PAGES: u32 = 512;
/// Pages after which the log should start over: 32 MiB.
const RESTART_PAGES: u32 = 8192;
/// Pages the engine is willing to move itself between two commits: a few milliseconds of work, once in hundreds of commits.
const INLINE_PAGES: u32 = 2048;
/// Pages after which the engine moves whatever is left, however much: a disk that cannot keep up must slow commits down,
/// or the log would grow without end.
const LIMIT_PAGES: u32 = 65_536;

/// What the thread and the engine tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Pages in the log after the last commit.
    logged: AtomicU32,
    /// Pages of it that have been moved.
    moved: AtomicU32,
    busy: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// The checkpoint thread, and what the engine does between commits.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The log is not looked at again before it has this many pages: somebody reads from it, and trying at every
    /// commit would not change that.
    retry_at: u32,
}

impl Checkpointer {
    /// Starts the thread, and watches the log of the engine's connection.
    pub(crate) fn start(conn: &mut Connection, db: &Path) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::default());
        let watched = shared.clone();
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            let pages = u32::try_from(pages).unwrap_or(0);
            if pages < watched.logged.swap(pages, Ordering::AcqRel) {
                // The log has started over by itself, because all of it had been moved.
                watched.moved.store(0, Ordering::Release);
            }
            Ok(())
        }))
        .map_err(|e| StoreError::Open(e.to_string()))?;
        let own = schema::open(db)?;
        let (wake, woken) = sync_channel(1);
        let told = shared.clone();
        let thread = std::thread::Builder::new()
            .name("semel-checkpoint".into())
            .spawn(move || run(&own, &told, &woken))
            .map_err(|e| StoreError::Open(format!("cannot start a thread: {e}")))?;
        Ok(Self { shared, wake: Some(wake), thread: Some(thread), retry_at: 0 })
    }

    /// To be called after each commit. An error means that the disk has failed. What the log has still to move is counted as
    /// space that is needed, so when that is low it is moved without waiting for more to come.
    pub(crate) fn after_commit(&mut self, conn: &Connection, space_is_low: bool) -> Result<(), StoreError> {
        if let Some(failure) =
            self.shared.failure.lock().expect("the lock is never held across a panic").take()
        {
            return Err(StoreError::Failed(format!("a checkpoint failed: {failure}")));
        }
        let logged = self.shared.logged.load(Ordering::Acquire);
        let left = logged.saturating_sub(self.shared.moved.load(Ordering::Acquire));
        let busy = self.shared.busy.load(Ordering::Acquire);
        if logged >= RESTART_PAGES.max(self.retry_at)
            && !busy
            && (left <= INLINE_PAGES || logged >= LIMIT_PAGES)
        {
            return self.restart_log(conn, logged);
        }
        let worth_it = left >= STEP_PAGES && logged >= self.retry_at;
        if !busy && (worth_it || space_is_low && left > 0) {
            self.send();
        }
        Ok(())
    }

    /// Bytes of the log that are not in the database yet.
    pub(crate) fn owed_bytes(&self) -> u64 {
        let logged = self.shared.logged.load(Ordering::Acquire);
        let left = logged.saturating_sub(self.shared.moved.load(Ordering::Acquire));
        u64::from(left) * u64::from(schema::PAGE_SIZE)
    }

    fn send(&self) {
        self.shared.busy.store(true, Ordering::Release);
        if let Some(wake) = &self.wake
            && wake.try_send(()).is_err()
        {
            self.shared.busy.store(false, Ordering::Release);
        }
    }

    /// Moves what is left. If nobody reads from the log, the next commit writes at its start again.
    fn restart_log(&mut self, conn: &Connection, logged: u32) -> Result<(), StoreError> {
        let moved = checkpoint(conn).map_err(|e| StoreError::Failed(format!("a checkpoint failed: {e}")))?;
        let complete = moved >= logged;
        self.shared.moved.store(if complete { 0 } else { moved }, Ordering::Release);
        self.shared.logged.store(if complete { 0 } else { logged }, Ordering::Release);
        self.retry_at = if complete { 0 } else { logged.saturating_add(RESTART_PAGES) };
        Ok(())
    }

    /// Ends the thread, after the checkpoint that it may be at.
    pub(crate) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(conn: &Connection, shared: &Shared, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        match checkpoint(conn) {
            Ok(moved) => shared.moved.store(moved, Ordering::Release),
            Err(e) => {
                *shared.failure.lock().expect("the lock is never held across a panic") = Some(e.to_string());
            }
        }
        shared.busy.store(false, Ordering::Release);
    }
}

/// Moves as many pages as can be moved without waiting for anybody, syncs, and says how many of the log have been moved.
/// On a full disk that is none, for now: the log has them, and nothing is lost by trying again later.
fn checkpoint(conn: &Connection) -> rusqlite::Result<u32> {
    let moved = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let moved: i64 = row.get(2)?;
        Ok(u32::try_from(moved).unwrap_or(0))
    });
    match moved {
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            tracing::warn!("the disk is full: the log cannot be moved into the database now");
            Ok(0)
        }
        other => other,
    }
}
