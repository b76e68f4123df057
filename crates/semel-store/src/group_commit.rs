//! Group commit: many callers, few commits.
//!
//! ```text
//! submit --> queue (bounded) --> driver --> Store::apply --> each caller's answer
//!               ^                  |
//!               +-- gathers while a commit is on its way
//! ```
//!
//! It sits above the [`Store`] trait, once for every backend. The driver takes what has gathered as soon as the last commit is
//! through, so an idle store answers at once and a busy one gets large batches. There is no timer, except where a commit has a
//! price of its own ([`Options::linger`], [`Options::stagger`]).
//!
//! Every accepted command is answered exactly once, whatever happens: by the store, or, if the driver goes away, with
//! what is known then.

mod caller;
mod gathering;
mod pace;

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use semel_core::lease::Extend;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::publish::{Publish, Published};
use semel_core::refusal::Refusal;
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};
use tokio::sync::{oneshot, watch};
use tokio::time::{Sleep, sleep};

use self::caller::{Caller, Parcel, heard};
use self::gathering::Gathering;
use self::pace::Pace;
use crate::batcher::{Batcher, Rejected};
use crate::command::{Answer, Command, Reply};
use crate::error::StoreError;
use crate::store::{BATCH_MAX, Store};

/// How many batches the driver begins before it lets others run. A store that never waits would otherwise keep its
/// thread for as long as callers keep coming.
const BATCHES_PER_TURN: usize = 16;

/// How group commit is to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many commands may wait; the next one is turned away. At least 1.
    pub capacity: usize,
    /// How many commands go into one commit, 1 to [`BATCH_MAX`].
    pub max_batch: usize,
    /// How many commits may be on their way at once, at least 1. With more than one, commands of different commits
    /// are in no order: only a caller that waits for one answer before it sends the next command keeps its order, or one
    /// that sends them all at once ([`GroupCommit::submit_all`]).
    pub in_flight: usize,
    /// How long a commit is alone on its way before the next may set out. Two small commits at once cost more than one of
    /// twice the size; but none should wait for long behind one that is stuck. Others that commit to the same store
    /// ([`GroupCommit::share_with`]) make it longer.
    pub stagger: Duration,
    /// How long after a commit the next waits for callers to come back, if there are some, but not many. Where others commit to
    /// the same store many are waited for, too, up to four times as long, and a commit sets out beside another once it has
    /// gathered as many commands.
    pub linger: Duration,
}

impl Default for Options {
    /// Batches of 256 are past the point where a larger one is faster. Sixteen of them waiting are some 50 ms of work:
    /// whoever comes after that is better off coming back later.
    fn default() -> Self {
        Self { capacity: 4096, max_batch: 256, in_flight: 1, stagger: Duration::ZERO, linger: Duration::ZERO }
    }
}

/// The queue is full. Nothing was done with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{waiting} commands are waiting to be stored, which is the limit: nothing was done, try again in {retry_after:?}"
)]
pub struct Overloaded {
    /// How many commands are ahead.
    pub waiting: usize,
    /// When there should be room, going by how long commits take.
    pub retry_after: Duration,
}

/// Why a command was not done, or is not known to be.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// The domain says no; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no room; nothing has changed.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The store could not do it; the error says what is known.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The answer to a settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The queue of the job.
    pub queue: QueueName,
    /// Where the job stands now.
    pub state: State,
    /// When it is due again, if it will be delivered again.
    pub due: Option<Timestamp>,
    /// How long the delivery took, as the history has it; `None` for a repeat, and for a delivery that goes on.
    pub took: Option<Millis>,
    /// Whether the same settle had taken effect before; then nothing changed.
    pub repeated: bool,
}

/// What a caller gets for a command.
type Outcome = Result<Reply, CommitError>;

/// The callers' end. Clones share one queue; when the last one is gone, the driver finishes what is queued and ends.
#[derive(Debug, Clone)]
pub struct GroupCommit {
    desk: Arc<Desk>,
}

/// What all clones of a [`GroupCommit`] share; dropping it closes the queue.
#[derive(Debug)]
struct Desk {
    line: Arc<Line>,
    /// The driver holds the receiving end for as long as it lives.
    driver: watch::Sender<()>,
}

/// What callers and driver share.
#[derive(Debug)]
struct Line {
    queue: Batcher<Ticket>,
    pace: Pace,
    /// How often many commands were sent at once.
    parcels: AtomicU64,
    /// How many others commit to the same store.
    others: AtomicU32,
    options: Options,
}

/// A command, and the way back to its caller.
#[derive(Debug)]
struct Ticket {
    command: Command,
    caller: Caller,
}

impl GroupCommit {
    /// Group commit above `store`. Nothing happens until the [`Driver`] is spawned, which is up to the caller: this
    /// crate knows no runtime. Options out of their range are taken to its nearest end.
    pub fn start(store: Arc<dyn Store>, options: Options) -> (Self, Driver) {
        let options = Options {
            capacity: options.capacity.max(1),
            max_batch: options.max_batch.clamp(1, BATCH_MAX),
            in_flight: options.in_flight.max(1),
            ..options
        };
        let line = Arc::new(Line {
            queue: Batcher::new(options.capacity),
            pace: Pace::new(),
            parcels: AtomicU64::new(0),
            others: AtomicU32::new(0),
            options,
        });
        let (driver, alive) = watch::channel(());
        let desk = Arc::new(Desk { line: line.clone(), driver });
        let (on_their_way, kept_back, company) = (Vec::new(), None, None);
        let gathering = Gathering::new(options.linger);
        let alive = Some(alive);
        (Self { desk }, Driver { line, store, on_their_way, kept_back, company, gathering, alive })
    }

    /// Says how many others commit to the same store, about as often. Each of them has a commit on its way, so this one's second
    /// would be one too many all the sooner: commits are that many times as far apart, and wait longer for as many times the callers.
    pub fn share_with(&self, others: usize) {
        self.desk.line.others.store(u32::try_from(others).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How many others commit to the same store, as far as was said.
    pub fn shared_with(&self) -> usize {
        usize::try_from(self.desk.line.others.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Has a command applied and waits until it is durable.
    ///
    /// A full queue is an error at once. Dropping the future disturbs nobody and takes nothing back: a command that was
    /// accepted is applied, only its answer is not heard.
    pub async fn submit(&self, command: Command) -> Result<Reply, CommitError> {
        let (ticket, answer) = Ticket::new(command);
        self.desk.line.queue.push(ticket).map_err(|rejected| self.desk.line.turned_away(rejected).1)?;
        heard(answer).await
    }

    /// The same for a command that nobody waits for: it goes along with the next commit that others cause, and only when
    /// `patience` is over it causes one. On a quiet store that saves a flush, which costs more than all the rest.
    pub async fn submit_patiently(
        &self,
        command: Command,
        patience: impl Future<Output = ()>,
    ) -> Result<Reply, CommitError> {
        let (ticket, answer) = Ticket::new(command);
        let queue = &self.desk.line.queue;
        queue.push_patient(ticket).map_err(|rejected| self.desk.line.turned_away(rejected).1)?;
        let mut answer = pin!(heard(answer));
        let mut patience = pin!(patience);
        let answered_in_time = poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => patience.as_mut().poll(cx).map(|()| None),
        });
        match answered_in_time.await {
            Some(outcome) => outcome,
            None => {
                queue.hurry();
                answer.await
            }
        }
    }

    /// Has many commands applied and answers each, in order.
    ///
    /// They are accepted in order as far as there is room; the rest is turned away as overloaded. They are applied in order,
    /// but they are not one transaction: they may go into different commits, one after the other, and each succeeds or fails
    /// for itself.
    pub async fn submit_all(&self, commands: Vec<Command>) -> Vec<Result<Reply, CommitError>> {
        let parcel = self.desk.line.parcels.fetch_add(1, Ordering::Relaxed);
        let (callers, answers) = Parcel::of(parcel, commands.len());
        let ticket = |(command, caller)| Ticket { command, caller };
        let tickets = commands.into_iter().zip(callers).map(ticket).collect();
        if let Err(rejected) = self.desk.line.queue.push_all(tickets) {
            let (tickets, error) = self.desk.line.turned_away(rejected);
            tickets.into_iter().for_each(|ticket| ticket.caller.tell(Err(error.clone())));
        }
        answers.heard().await
    }

    /// Publishes a job.
    pub async fn publish(&self, publish: Publish) -> Result<Published, CommitError> {
        match self.submit(Command::Publish(publish)).await? {
            Reply::Published(published) => Ok(published),
            other => Err(wrong_reply("publish", &other)),
        }
    }

    /// Settles a delivery.
    pub async fn settle(&self, settle: Settle) -> Result<Settled, CommitError> {
        settled(self.submit(Command::Settle(settle)).await?)
    }

    /// Settles a delivery, and lets the settle wait for company as [`GroupCommit::submit_patiently`] does.
    pub async fn settle_patiently(
        &self,
        settle: Settle,
        patience: impl Future<Output = ()>,
    ) -> Result<Settled, CommitError> {
        settled(self.submit_patiently(Command::Settle(settle), patience).await?)
    }

    /// Keeps a lease longer; returns when it now ends.
    pub async fn extend(&self, extend: Extend) -> Result<Timestamp, CommitError> {
        match self.submit(Command::Extend(extend)).await? {
            Reply::Extended(deadline) => Ok(deadline),
            other => Err(wrong_reply("extend", &other)),
        }
    }

    /// How many commits have set out so far.
    pub fn commits(&self) -> u64 {
        self.desk.line.pace.commits()
    }

    /// How many commands wait for a commit.
    pub fn waiting(&self) -> usize {
        self.desk.line.queue.waiting()
    }

    /// Takes no more commands, and waits until all that were accepted are answered and the driver has ended.
    ///
    /// It needs a driver that runs, and it does not close the store. Closing twice is fine.
    pub async fn close(&self) {
        self.desk.line.queue.close();
        self.desk.driver.closed().await;
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.line.queue.close();
    }
}

impl Line {
    /// Why these were turned away. A closed queue is for callers what a closed store is.
    fn turned_away<T>(&self, rejected: Rejected<T>) -> (T, CommitError) {
        match rejected {
            Rejected::Closed(items) => (items, StoreError::Closed.into()),
            Rejected::Full(items) => {
                let Options { capacity: waiting, max_batch, in_flight, .. } = self.options;
                let retry_after = self.pace.retry_after(waiting.div_ceil(max_batch), in_flight);
                (items, Overloaded { waiting, retry_after }.into())
            }
        }
    }
}

impl Ticket {
    fn new(command: Command) -> (Self, oneshot::Receiver<Outcome>) {
        let (caller, answer) = Caller::alone();
        (Self { command, caller }, answer)
    }
}

fn settled(reply: Reply) -> Result<Settled, CommitError> {
    match reply {
        Reply::Settled { queue, state, due, took, repeated } => {
            Ok(Settled { queue, state, due, took, repeated })
        }
        other => Err(wrong_reply("settle", &other)),
    }
}

/// A store that breaks the law of [`Store::apply`] leaves it open what it did.
fn wrong_reply(command: &str, reply: &Reply) -> CommitError {
    StoreError::Unknown(format!("the store answered a {command} with {reply:?}")).into()
}

/// Carries batches from the queue to the store. Spawn it; it ends when group commit is closed and all is answered.
///
/// If it is dropped before, as by a panic in the store, commands on their way are answered with
/// [`StoreError::Unknown`], and those in the queue, now and later, with [`StoreError::Closed`].
#[must_use = "nothing is committed until the driver is spawned"]
pub struct Driver {
    line: Arc<Line>,
    store: Arc<dyn Store>,
    on_their_way: Vec<Commit>,
    /// A batch that goes on with what a commit on its way began.
    kept_back: Option<Vec<Ticket>>,
    /// When another commit may set out beside the last one.
    company: Option<Pin<Box<Sleep>>>,
    gathering: Gathering,
    /// Dropped last, after the answers: whoever waits in [`GroupCommit::close`] may rely on them.
    alive: Option<watch::Receiver<()>>,
}

/// A commit on its way.
struct Commit {
    course: Pin<Box<dyn Future<Output = ()> + Send>>,
    commands: usize,
    /// What its last command was sent with: the rest of that may be in the next batch.
    parcel: Option<u64>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..BATCHES_PER_TURN {
            let (before, commands) = (self.on_their_way.len(), self.commands_on_their_way());
            self.on_their_way.retain_mut(|commit| commit.course.as_mut().poll(cx).is_pending());
            if self.on_their_way.len() < before {
                let known = commands + self.line.queue.waiting();
                self.gathering.answered(known);
            }
            if self.on_their_way.len() >= self.line.options.in_flight || self.is_too_soon(cx) {
                return Poll::Pending;
            }
            match self.next_batch(cx) {
                Poll::Ready(Some(batch)) if self.goes_on(&batch) => {
                    // The commit it waits for wakes the driver when it is through.
                    self.kept_back = Some(batch);
                    return Poll::Pending;
                }
                Poll::Ready(Some(batch)) => self.begin(batch),
                Poll::Ready(None) if self.on_their_way.is_empty() => {
                    self.alive = None;
                    return Poll::Ready(());
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Driver {
    fn next_batch(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<Ticket>>> {
        match self.kept_back.take() {
            Some(batch) => Poll::Ready(Some(batch)),
            // One commit after the other is best when each is full.
            None if self.line.options.in_flight == 1 => {
                self.line.queue.poll_batch(cx, self.line.options.max_batch)
            }
            None => self.line.queue.poll_batch_cut(cx, self.line.options.max_batch, between_parcels),
        }
    }

    /// Whether a batch begins with the rest of what a commit on its way ends with. Out of order, the second half of what
    /// was sent at once could be there before the first.
    fn goes_on(&self, batch: &[Ticket]) -> bool {
        let first = batch.first().and_then(|ticket| ticket.caller.parcel());
        first.is_some() && self.on_their_way.iter().any(|commit| commit.parcel == first)
    }

    fn commands_on_their_way(&self) -> usize {
        self.on_their_way.iter().map(|commit| commit.commands).sum()
    }

    /// Whether the next commit waits: for callers to come back, or beside another that has set out recently, until that is
    /// through, time has passed, or enough have gathered. One that is full gains nothing by waiting.
    fn is_too_soon(&mut self, cx: &mut Context<'_>) -> bool {
        let queue = &self.line.queue;
        let others = self.commands_on_their_way();
        if others == 0 {
            self.company = None;
            return self.gathering.is_under_way(cx, queue);
        }
        let full = self.line.options.max_batch;
        let enough = self.gathering.beside(others).map_or(full, |enough| enough.min(full));
        let Some(company) = &mut self.company else { return false };
        if queue.poll_gathered(cx, enough).is_pending() && company.as_mut().poll(cx).is_pending() {
            return true;
        }
        self.company = None;
        false
    }

    fn begin(&mut self, batch: Vec<Ticket>) {
        let Options { in_flight, stagger, .. } = self.line.options;
        let sharers = self.line.others.load(Ordering::Relaxed).saturating_add(1);
        self.gathering.share_among(usize::try_from(sharers).unwrap_or(usize::MAX));
        if in_flight > 1 && !stagger.is_zero() {
            self.company = Some(Box::pin(sleep(stagger.saturating_mul(sharers))));
        }
        self.gathering.sets_out(batch.len());
        let (parcel, commands) = (batch.last().and_then(|ticket| ticket.caller.parcel()), batch.len());
        let course = Box::pin(commit(self.store.clone(), self.line.clone(), batch));
        self.on_their_way.push(Commit { course, commands, parcel });
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let kept_back = self.kept_back.take().unwrap_or_default();
        for ticket in kept_back.into_iter().chain(self.line.queue.abandon()) {
            ticket.caller.tell(Err(StoreError::Closed.into()));
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("on_their_way", &self.on_their_way.len()).finish_non_exhaustive()
    }
}

/// How many of the first `count` tickets to take so that no parcel is divided: its second half would have to wait for the
/// commit of the first. One that is larger than a batch is, all the same.
fn between_parcels(waiting: &VecDeque<Ticket>, count: usize) -> usize {
    let parcel = |place: usize| waiting.get(place).and_then(|ticket| ticket.caller.parcel());
    let divided = parcel(count);
    let whole = (1..=count).rev().find(|place| divided.is_none() || parcel(place - 1) != divided);
    whole.unwrap_or(count)
}

/// Has one batch applied and tells its callers.
async fn commit(store: Arc<dyn Store>, line: Arc<Line>, batch: Vec<Ticket>) {
    let (commands, callers): (Vec<_>, Vec<_>) = batch.into_iter().map(|t| (t.command, t.caller)).unzip();
    let began = line.pace.begins();
    let applied = store.apply(commands).await;
    line.pace.ends(began);
    match applied.and_then(|answers| one_each(answers, callers.len())) {
        Ok(answers) => {
            for (caller, answer) in callers.into_iter().zip(answers) {
                caller.tell(answer.map_err(CommitError::Refused));
            }
        }
        Err(error) => callers.into_iter().for_each(|caller| caller.tell(Err(error.clone().into()))),
    }
}

/// Answers that are too few or too many cannot be told apart from answers in the wrong order.
fn one_each(answers: Vec<Answer>, commands: usize) -> Result<Vec<Answer>, StoreError> {
    if answers.len() == commands {
        return Ok(answers);
    }
    Err(StoreError::Unknown(format!("the store gave {} answers to {commands} commands", answers.len())))
}
