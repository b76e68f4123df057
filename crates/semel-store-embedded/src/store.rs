//! The store as its callers see it: a handle that talks to the engine's thread and to the reader's.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rusqlite::Connection;
use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::records::{ApiKeyRecord, QueueRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;
use semel_store::store::BATCH_MAX;
use semel_store::{Answer, Clock, Command, Health, JobQuery, KeyRecord, Page, Stats, Store, StoreError};
use tokio::sync::oneshot;

use crate::engine::{Engine, Overlay};
use crate::lock::{DirLock, LOCK_FILE};
use crate::options::{Options, Sabotage};
use crate::thread::{self, Message};
use crate::{reads, schema, unclosed};

/// The name a new database has until it is whole. What a crash leaves under it is made again.
const STAGING_FILE: &str = "semel.new";

/// A job for the reader's thread; `None` sends it home.
type Errand = Option<Box<dyn FnOnce(&mut Connection) + Send>>;

/// An open embedded store.
#[derive(Debug)]
pub struct EmbeddedStore {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    engine: Sender<Message>,
    reader: Sender<Errand>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    closed: AtomicBool,
    lock: Mutex<Option<DirLock>>,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, or makes one if the directory is empty or absent. Waits until it is ready.
    pub fn open(dir: &Path, options: Options) -> Result<Self, StoreError> {
        let lock = prepare_dir(dir)?;
        let db = dir.join(schema::DB_FILE);
        let conn = schema::open(&db)?;
        schema::complete(&conn, &db)?;
        if options.sabotage == Some(Sabotage::NoSync) {
            conn.pragma_update(None, "synchronous", "off").map_err(|e| StoreError::Open(e.to_string()))?;
        }
        let clock = options.clock.clone();
        let (engine, inbox) = channel();
        let engine_thread = start_engine(conn, dir, options, inbox)?;
        let (reader, errands) = channel();
        let reader_thread = start_reader(&db, errands)?;
        Ok(Self {
            dir: dir.to_owned(),
            clock,
            engine,
            reader,
            threads: Mutex::new(vec![engine_thread, reader_thread]),
            closed: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stops without closing, as a crash would, and frees the directory. Everything answered is durable already;
    /// [`Store::close`] only makes the next open quicker.
    pub fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        // A thread that has ended already cannot be told to; that is what is wanted.
        drop(self.engine.send(Message::Stop));
        drop(self.reader.send(None));
        for thread in self.threads.lock().expect("the lock is never held across a panic").drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        self.lock.lock().expect("the lock is never held across a panic").take();
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        self.engine.send(message).map_err(|_| StoreError::Closed)
    }

    /// Has `question` answered on the engine's thread, between two commits.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine<'_>) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Message::Ask(Box::new(move |engine| {
            let told = question(engine);
            // If the caller has gone away nobody needs the answer.
            Box::new(move || drop(answer.send(told)))
        })))?;
        answered.await.map_err(|_| StoreError::Closed)
    }
}

/// Makes the directory if need be, locks it, and makes the database if the directory is new. A directory with anything
/// else in it and no database is refused: it may be a store that has lost its database, and must not look like an empty one.
fn prepare_dir(dir: &Path) -> Result<DirLock, StoreError> {
    let refuse = |what: &str, e: &dyn std::fmt::Display| {
        StoreError::Open(format!("cannot {what} {}: {e}", dir.display()))
    };
    fs::create_dir_all(dir).map_err(|e| refuse("make", &e))?;
    let lock = DirLock::take(dir)?;
    let db = dir.join(schema::DB_FILE);
    if db.exists() {
        unclosed::require_log(dir)?;
        return Ok(lock);
    }
    let others = fs::read_dir(dir).map_err(|e| refuse("list", &e))?.filter_map(Result::ok);
    let ours =
        |name: &std::ffi::OsString| name == LOCK_FILE || name.to_string_lossy().starts_with(STAGING_FILE);
    if let Some(other) = others.map(|entry| entry.file_name()).find(|name| !ours(name)) {
        return Err(StoreError::Open(format!(
            "{} has no {} but is not empty (there is {}): give an empty directory, or restore the missing file from a backup",
            dir.display(),
            schema::DB_FILE,
            other.display()
        )));
    }
    create_db(dir, &db)?;
    Ok(lock)
}

/// Makes the database under another name first, so that a crash half way leaves nothing that looks like a store.
fn create_db(dir: &Path, db: &Path) -> Result<(), StoreError> {
    let refuse =
        |e: std::io::Error| StoreError::Open(format!("cannot make a store in {}: {e}", dir.display()));
    let staging = dir.join(STAGING_FILE);
    for leftover in ["", "-journal", "-wal", "-shm"].map(|suffix| dir.join(format!("{STAGING_FILE}{suffix}")))
    {
        if leftover.exists() {
            fs::remove_file(&leftover).map_err(refuse)?;
        }
    }
    schema::create(&staging, rand::random())?;
    fs::File::open(&staging).and_then(|file| file.sync_all()).map_err(refuse)?;
    fs::rename(&staging, db).map_err(refuse)?;
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(refuse)
}

fn start_engine(
    conn: Connection,
    dir: &Path,
    options: Options,
    inbox: Receiver<Message>,
) -> Result<JoinHandle<()>, StoreError> {
    let (opened, ready) = channel();
    let dir = dir.to_owned();
    let thread = spawn("semel-engine", move || thread::run(conn, &dir, &options, &inbox, opened))?;
    match ready.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(e)) => Err(e),
        Err(_) => Err(StoreError::Open("the engine stopped while it was loading; the log says why".into())),
    }
}

fn start_reader(db: &Path, errands: Receiver<Errand>) -> Result<JoinHandle<()>, StoreError> {
    let mut conn = schema::open_reader(db)?;
    spawn("semel-reader", move || {
        while let Ok(Some(errand)) = errands.recv() {
            errand(&mut conn);
        }
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| StoreError::Open(format!("cannot start a thread: {e}")))
}

impl Drop for EmbeddedStore {
    /// Waits for the threads, so that the directory is free when the store is gone.
    fn drop(&mut self) {
        self.abandon();
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        if batch.len() > BATCH_MAX {
            return Err(StoreError::TooMany { got: batch.len(), max: BATCH_MAX });
        }
        let (answer, answered) = oneshot::channel();
        self.send(Message::Apply { batch, answer })?;
        answered.await.map_err(|_| StoreError::Unknown("the engine stopped before it answered".into()))?
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Message::Lease { request, answer })?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn next_due(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        let queue = queue.clone();
        self.ask(move |engine| engine.next_due(&queue).map_err(|fault| fault.rolled_back())).await?
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.ask(|engine| engine.next_expiry()).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.ask(move |engine| engine.read_job(id)).await?
    }

    async fn jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        query.validate().map_err(StoreError::Invalid)?;
        let (asked, filter) = (query.clone(), query.clone());
        let overlay: Overlay =
            self.ask(move |engine| engine.overlay(&asked).map_err(|fault| fault.rolled_back())).await??;
        let (answer, answered) = oneshot::channel();
        let errand =
            Box::new(move |conn: &mut Connection| drop(answer.send(reads::list(conn, &query, &overlay))));
        self.reader.send(Some(errand)).map_err(|_| StoreError::Closed)?;
        let mut page = answered.await.map_err(|_| StoreError::Closed)??;
        self.ask(move |engine| {
            engine.add_duplicates(&filter, &mut page.items).map_err(|fault| fault.rolled_back())?;
            Ok(page)
        })
        .await?
    }

    async fn key(&self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        let (queue, key) = (queue.clone(), key.clone());
        self.ask(move |engine| engine.read_key(&queue, &key)).await?
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        let name = name.clone();
        self.ask(move |engine| engine.queue_record(&name)).await
    }

    async fn queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        self.ask(|engine| engine.queue_records()).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.ask(|engine| engine.records("schedule").map_err(|fault| fault.rolled_back())).await?
    }

    async fn api_keys(&self) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.ask(|engine| engine.records("api_key").map_err(|fault| fault.rolled_back())).await?
    }

    async fn replays(&self) -> Result<Vec<ReplayRecord>, StoreError> {
        self.ask(|engine| engine.records("replay").map_err(|fault| fault.rolled_back())).await?
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.ask(|engine| engine.read_stats().map_err(|fault| fault.rolled_back())).await?
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.ask(|engine| engine.read_health()).await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        match self.send(Message::Close(answer)) {
            Err(StoreError::Closed) => return Ok(()),
            other => other?,
        }
        self.closed.store(true, Ordering::Release);
        let closed = answered.await.map_err(|_| StoreError::Closed)?;
        self.abandon();
        closed
    }
}
