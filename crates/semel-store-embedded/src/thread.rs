//! The engine's thread: takes messages, gathers what belongs in one commit, answers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_store::{Answer, Command, StoreError};
use tokio::sync::oneshot;

use crate::Options;
use crate::checkpoint::Checkpointer;
use crate::engine::Engine;
use crate::unclosed;

/// Commands that go into one commit at most. More would make the first of them wait for the last.
const COMMIT_MAX: usize = 1024;

/// How long the engine looks out for the next message before it sleeps.
const STAY_AWAKE: Duration = Duration::from_micros(50);

/// How many messages must have come soon before it looks out. A single job of a quiet queue makes two.
const OFTEN: u32 = 4;

type Answers = Result<Vec<Answer>, StoreError>;
/// Something to be done on the engine's thread, between commits.
pub(crate) type Question = Box<dyn FnOnce(&mut Engine<'_>) -> Telling + Send>;
/// Tells a caller its answer.
pub(crate) type Telling = Box<dyn FnOnce() + Send>;

/// What the engine's thread is asked.
pub(crate) enum Message {
    Apply {
        batch: Vec<Command>,
        answer: oneshot::Sender<Answers>,
    },
    Lease {
        request: LeaseRequest,
        answer: oneshot::Sender<Result<Vec<Delivery>, StoreError>>,
    },
    Ask(Question),
    Close(oneshot::Sender<Result<(), StoreError>>),
    /// Stop at once, without tidying up.
    Stop,
}

/// Why serving stopped.
enum Stop {
    Closed(Option<oneshot::Sender<Result<(), StoreError>>>),
    Reload,
}

/// The thread's state beside the engine: it outlives a reload.
struct Desk<'a> {
    inbox: &'a Receiver<Message>,
    /// Messages taken from the inbox and not dealt with yet.
    waiting: VecDeque<Message>,
    checkpointer: Checkpointer,
    /// Once set, nothing is written any more.
    failed: Option<StoreError>,
    /// How many messages in a row came so soon that looking out for the next is worth it.
    soon: u32,
}

/// Runs until the store is closed or nobody can ask any more.
pub(crate) fn run(
    mut conn: Connection,
    dir: &Path,
    options: &Options,
    inbox: &Receiver<Message>,
    opened: Sender<Result<(), StoreError>>,
) {
    let mut opened = Some(opened);
    let checkpointer = match Checkpointer::start(&mut conn, &dir.join(crate::schema::DB_FILE)) {
        Ok(checkpointer) => checkpointer,
        Err(e) => return tell(opened.take(), Err(e)),
    };
    let mut desk = Desk { inbox, waiting: VecDeque::new(), checkpointer, failed: None, soon: 0 };
    let mut tokens = None;
    loop {
        let mut engine = match Engine::load(&conn, dir, options, tokens.take()) {
            Ok(engine) => engine,
            Err(fault) if opened.is_some() => return tell(opened.take(), Err(fault.rolled_back())),
            Err(fault) => {
                tracing::error!(%fault, "the store could not be loaded again after a failed commit");
                return desk.refuse_all(&StoreError::Failed(fault.to_string()));
            }
        };
        if let Err(e) = unclosed::mark(dir) {
            return tell(opened.take(), Err(e));
        }
        tell(opened.take(), Ok(()));
        match desk.serve(&mut engine, &conn) {
            Stop::Reload => {
                tracing::warn!("a commit failed: memory is loaded from disk again");
                tokens = Some(engine.tokens());
            }
            Stop::Closed(answer) => {
                // A store that is dropped without being closed leaves its directory as a crash would.
                let closed = if answer.is_some() { desk.close(&mut engine, &conn, dir) } else { Ok(()) };
                drop(engine);
                drop(desk);
                drop(conn);
                answer.into_iter().for_each(|answer| reply(answer, closed.clone()));
                return;
            }
        }
    }
}

fn tell(opened: Option<Sender<Result<(), StoreError>>>, result: Result<(), StoreError>) {
    if let Some(opened) = opened
        && opened.send(result).is_err()
    {
        tracing::debug!("nobody waits for the store to open any more");
    }
}

/// Answers, if the caller is still there. One that has gone away has lost interest, not its change.
fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    drop(answer.send(value));
}

impl Desk<'_> {
    fn serve(&mut self, engine: &mut Engine<'_>, conn: &Connection) -> Stop {
        loop {
            if self.waiting.is_empty() {
                match self.next_message() {
                    Ok(message) => self.waiting.push_back(message),
                    Err(_) => return Stop::Closed(None),
                }
            }
            let (batches, answers) = self.gather();
            if !batches.is_empty() && !self.commit(engine, conn, batches, answers) {
                return Stop::Reload;
            }
            if self.waiting.is_empty() {
                continue;
            }
            match engine.reading(|engine| self.answer_waiting(engine)) {
                Ok(None) => {}
                Ok(Some(stop)) => return stop,
                Err(error) => {
                    self.fail(error);
                    return Stop::Reload;
                }
            }
        }
    }

    /// Waits for a message: a moment without sleeping, because a caller that has just been answered often comes back at
    /// once, and to be woken takes as long as a small commit. Where nobody does, as between the jobs of a quiet queue, that
    /// would be time spent for nothing, so it is done only after several messages that came soon.
    fn next_message(&mut self) -> Result<Message, RecvError> {
        let start = Instant::now();
        while self.soon >= OFTEN && start.elapsed() < STAY_AWAKE {
            match self.inbox.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
            }
        }
        let message = self.inbox.recv();
        let came_soon = start.elapsed() < STAY_AWAKE * 2;
        self.soon = if came_soon { self.soon.saturating_add(1) } else { 0 };
        message
    }

    /// Answers what needs no commit, up to the next that does. The callers are told at the end, one right after the other:
    /// often they are one and the same, and each wake-up costs it more than the answer did.
    fn answer_waiting(&mut self, engine: &mut Engine<'_>) -> Option<Stop> {
        let (mut tellings, mut stop) = (Vec::with_capacity(self.waiting.len()), None);
        while stop.is_none()
            && let Some(message) = self.waiting.pop_front()
        {
            match message {
                Message::Lease { request, answer } => {
                    let leased = self.lease(engine, &request);
                    tellings.push(Box::new(move || reply(answer, leased)) as Telling);
                }
                Message::Ask(question) => tellings.push(question(engine)),
                Message::Close(answer) => stop = Some(Stop::Closed(Some(answer))),
                Message::Stop => stop = Some(Stop::Closed(None)),
                apply @ Message::Apply { .. } => {
                    self.waiting.push_front(apply);
                    break;
                }
            }
        }
        tellings.into_iter().for_each(|tell| tell());
        stop
    }

    /// Takes what has queued up: commands for the next commit, and in `waiting` what comes after it.
    fn gather(&mut self) -> (Vec<Vec<Command>>, Vec<oneshot::Sender<Answers>>) {
        self.waiting.extend(self.inbox.try_iter().take(COMMIT_MAX));
        let (mut batches, mut answers, mut commands) = (Vec::new(), Vec::new(), 0);
        for message in std::mem::take(&mut self.waiting) {
            match message {
                Message::Apply { batch, answer }
                    if batches.is_empty() || commands + batch.len() <= COMMIT_MAX =>
                {
                    commands += batch.len();
                    batches.push(batch);
                    answers.push(answer);
                }
                other => self.waiting.push_back(other),
            }
        }
        (batches, answers)
    }

    /// Commits and answers. `false` if memory no longer is what the disk is.
    fn commit(
        &mut self,
        engine: &mut Engine<'_>,
        conn: &Connection,
        mut batches: Vec<Vec<Command>>,
        answers: Vec<oneshot::Sender<Answers>>,
    ) -> bool {
        if let Some(failed) = &self.failed {
            answers.into_iter().for_each(|answer| reply(answer, Err(failed.clone())));
            return true;
        }
        let outcome = engine.commit(&mut batches);
        match outcome {
            Ok(all) => {
                answers.into_iter().zip(all).for_each(|(answer, replies)| reply(answer, Ok(replies)));
                if let Err(e) = self.checkpointer.after_commit(conn, engine.is_low_on_space()) {
                    self.fail(e);
                }
                engine.log_owes(self.checkpointer.owed_bytes());
                true
            }
            Err(error) => {
                answers.into_iter().for_each(|answer| reply(answer, Err(error.clone())));
                if !matches!(error, StoreError::Full(_)) {
                    self.fail(StoreError::Failed(error.to_string()));
                }
                false
            }
        }
    }

    fn fail(&mut self, error: StoreError) {
        tracing::error!(%error, "the store takes no more writes");
        self.failed = Some(error);
    }

    fn lease(&self, engine: &mut Engine<'_>, request: &LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        // What cannot be settled is not handed out.
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        engine.lease(request).map_err(|fault| fault.rolled_back())
    }

    fn close(&mut self, engine: &mut Engine<'_>, conn: &Connection, dir: &Path) -> Result<(), StoreError> {
        if self.failed.is_some() {
            return Ok(());
        }
        engine.shut_down().map_err(|fault| fault.rolled_back())?;
        // With nothing left in the log the next open has nothing to recover. Our own thread in the middle of a checkpoint would
        // prevent it, so it ends first. Somebody else who still reads prevents it too, which does no harm.
        self.checkpointer.stop();
        let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match busy.map_err(|e| StoreError::Failed(e.to_string()))? {
            0 => unclosed::clear(dir),
            _ => Ok(()),
        }
    }

    /// The store is beyond serving: everybody hears why, until nobody asks.
    fn refuse_all(mut self, error: &StoreError) {
        loop {
            let message = match self.waiting.pop_front() {
                Some(message) => message,
                None => match self.inbox.recv() {
                    Ok(message) => message,
                    Err(_) => return,
                },
            };
            match message {
                Message::Apply { answer, .. } => reply(answer, Err(error.clone())),
                Message::Lease { answer, .. } => reply(answer, Err(error.clone())),
                Message::Ask(question) => drop(question),
                Message::Stop => return,
                Message::Close(answer) => {
                    reply(answer, Ok(()));
                    return;
                }
            }
        }
    }
}
