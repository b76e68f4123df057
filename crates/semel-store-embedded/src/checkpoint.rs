//! Checkpoints: moving pages from the log into the database, so that the log can start over.
//!
//! A thread of its own does nearly all of it while commits go on. But a log only starts over when nothing of it is left to
//! move, and under full load the thread is always a little behind; so once the log is long enough, and the thread has just
//! caught up to within a few pages, the engine moves those few itself between two commits.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use semel_store::StoreError;

use crate::schema;

/// Pages the log grows before the thread is sent to move them: 1 MiB. Its sync of the database slows the commits that meet it, the
/// longer the more was moved: with 2 MiB the p99 of publishes was 2.3 ms instead of 1.9, with 4 MiB 3.2. Half a MiB would gain
/// little more (1.8), and pages that every commit changes would be written twice as often. Where a sync takes long, more gathers
/// meanwhile.
const STEP_PAGES: u32 = 256;
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
    log: Mutex<Log>,
    busy: AtomicBool,
    /// The disk was full when the log was last to be moved.
    full: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("the lock is never held across a panic")
    }
}

/// The log, as far as is known.
#[derive(Debug, Default, Clone, Copy)]
struct Log {
    /// Pages in it after the last commit.
    pages: u32,
    /// Pages of it that have been moved.
    moved: u32,
    /// How often it has started over. What was moved of an earlier one says nothing about this one.
    round: u64,
}

impl Log {
    /// Pages that are not in the database yet.
    fn left(self) -> u32 {
        self.pages.saturating_sub(self.moved)
    }

    /// Notes how long it is after a commit. One that had been moved as a whole has started over, unless somebody still reads
    /// from it: then the next checkpoint finds less to move than is assumed here.
    fn grew_to(&mut self, pages: u32) {
        if pages < self.pages || self.moved >= self.pages {
            self.starts_over();
        }
        self.pages = pages;
    }

    /// Notes what a checkpoint has moved that began in a round.
    fn was_moved(&mut self, round: u64, moved: u32) {
        if round == self.round {
            self.moved = moved;
        }
    }

    fn starts_over(&mut self) {
        *self = Self { pages: 0, moved: 0, round: self.round + 1 };
    }
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
            watched.log().grew_to(u32::try_from(pages).unwrap_or(0));
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
        let log = *self.shared.log();
        let left = log.left();
        let busy = self.shared.busy.load(Ordering::Acquire);
        if log.pages >= RESTART_PAGES.max(self.retry_at)
            && !busy
            && (left <= INLINE_PAGES || log.pages >= LIMIT_PAGES)
        {
            return self.restart_log(conn, log);
        }
        let worth_it = left >= STEP_PAGES && log.pages >= self.retry_at;
        if !busy && (worth_it || space_is_low && left > 0) {
            self.send();
        }
        Ok(())
    }

    /// Bytes of the log that are not in the database yet.
    pub(crate) fn owed_bytes(&self) -> u64 {
        u64::from(self.shared.log().left()) * u64::from(schema::PAGE_SIZE)
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
    fn restart_log(&mut self, conn: &Connection, log: Log) -> Result<(), StoreError> {
        let moved = checkpoint(conn, &self.shared.full)
            .map_err(|e| StoreError::Failed(format!("a checkpoint failed: {e}")))?;
        if moved >= log.pages {
            self.shared.log().starts_over();
            self.retry_at = 0;
        } else {
            self.shared.log().was_moved(log.round, moved);
            self.retry_at = log.pages.saturating_add(RESTART_PAGES);
        }
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
        let round = shared.log().round;
        match checkpoint(conn, &shared.full) {
            Ok(moved) => shared.log().was_moved(round, moved),
            Err(e) => {
                *shared.failure.lock().expect("the lock is never held across a panic") = Some(e.to_string());
            }
        }
        shared.busy.store(false, Ordering::Release);
    }
}

/// Moves as many pages as can be moved without waiting for anybody, syncs, and says how many of the log have been moved.
/// On a full disk that is none, for now: the log has them, and nothing is lost by trying again later. It is said once, and not
/// again each time it is tried.
fn checkpoint(conn: &Connection, full: &AtomicBool) -> rusqlite::Result<u32> {
    let moved = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let moved: i64 = row.get(2)?;
        Ok(u32::try_from(moved).unwrap_or(0))
    });
    match moved {
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            if !full.swap(true, Ordering::AcqRel) {
                tracing::warn!("the disk is full: the log cannot be moved into the database for now");
            }
            Ok(0)
        }
        Ok(moved) => {
            if moved > 0 && full.swap(false, Ordering::AcqRel) {
                tracing::info!("the disk has room: the log is moved into the database again");
            }
            Ok(moved)
        }
        failed => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_came_after_the_last_checkpoint() {
        let mut log = Log::default();
        log.grew_to(10);
        log.was_moved(log.round, 7);
        log.grew_to(12);
        assert_eq!((log.left(), log.pages), (5, 12));
    }

    #[test]
    fn a_log_that_is_shorter_or_was_moved_as_a_whole_has_started_over() {
        let mut log = Log::default();
        log.grew_to(10);
        log.was_moved(log.round, 7);
        log.grew_to(3);
        assert_eq!(log.left(), 3, "of this one nothing was moved");
        log.was_moved(log.round, 3);
        log.grew_to(20);
        assert_eq!(log.left(), 20, "a commit of twenty pages is longer than the whole log before it");
    }

    #[test]
    fn a_checkpoint_of_an_earlier_log_says_nothing_about_this_one() {
        let mut log = Log::default();
        log.grew_to(10);
        let round = log.round;
        log.was_moved(round, 10);
        log.grew_to(8);
        log.was_moved(round, 10);
        assert_eq!(log.left(), 8);
    }
}
