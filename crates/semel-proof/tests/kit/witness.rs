//! Everything that clients and workers asked and were told, and the judgement of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use semel_core::ids::{JobId, Token};
use semel_core::job::{Attempt, AttemptStatus};
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};
use semel_proof::book::Book;
use semel_proof::checker::{Report, check};
use semel_proof::history::{Answer, Call, Delivered, Entry, Op, Promise, Say};
use semel_proof::recorder::{Recorder, Tape};
use semel_proof::survey::Survey;
use semel_store::query::PAGE_MAX;
use semel_store::{JobQuery, Store, StoreError};

/// The clock of the server follows the machine's in steps of ten milliseconds, so the two differ by a little more.
const CLOCKS_DIFFER: Millis = Millis::from_millis(25);
/// Deliveries by webhook have numbers of their own: their leases began before anybody could write it down.
const FIRST_PUSHED: Op = 1 << 40;
/// The upkeep of the server, which ends leases all the time and tells nobody: one call, open from beginning to end.
const UPKEEP: Op = 1 << 50;

/// What the server put off by itself. Each is closed at once, so one number does for all.
const PUT_OFF: Op = UPKEEP + 1;

/// Takes down what happens on all threads.
pub(crate) struct Witness {
    began: Timestamp,
    recorder: Recorder,
    tape: Tape,
    promises: Mutex<Vec<Promise>>,
    pushed: Mutex<Vec<Pushed>>,
    next_pushed: AtomicU64,
    oks: AtomicU64,
}

/// A delivery that a webhook got.
struct Pushed {
    op: Op,
    queue: QueueName,
    id: JobId,
    attempt: u32,
}

pub(crate) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap())
}

/// A time before which nothing that is asked now can happen.
fn earliest() -> Timestamp {
    Timestamp::from_millis(wall_clock().millis().saturating_sub(CLOCKS_DIFFER.millis()))
}

/// A time after which nothing that is answered now can have happened.
fn latest() -> Timestamp {
    wall_clock().plus(CLOCKS_DIFFER)
}

impl Witness {
    pub(crate) fn new() -> Self {
        let (recorder, tape) = Recorder::in_memory();
        let (promises, pushed) = Default::default();
        Self {
            began: earliest(),
            recorder,
            tape,
            promises,
            pushed,
            next_pushed: AtomicU64::new(FIRST_PUSHED),
            oks: AtomicU64::new(0),
        }
    }

    pub(crate) fn promise(&self, promise: Promise) {
        self.promises.lock().unwrap().push(promise);
    }

    /// Calls are about to be made; the number of the first, the others follow.
    pub(crate) fn invoke(&self, calls: &[Call]) -> Op {
        self.recorder.invoke(earliest(), calls.iter()).unwrap()
    }

    /// How many calls were answered so far.
    pub(crate) fn oks(&self) -> u64 {
        self.oks.load(Ordering::Relaxed)
    }

    pub(crate) fn ok(&self, op: Op, answer: Answer) {
        self.oks.fetch_add(1, Ordering::Relaxed);
        self.recorder.write([Entry::Ok { op, at: latest(), answer }]).unwrap();
    }

    /// It certainly changed nothing.
    pub(crate) fn fail(&self, op: Op, why: String) {
        self.recorder.write([Entry::Fail { op, why }]).unwrap();
    }

    pub(crate) fn unknown(&self, op: Op, why: String) {
        self.recorder.write([Entry::Unknown { op, why }]).unwrap();
    }

    /// A webhook got a job.
    pub(crate) fn pushed(&self, queue: QueueName, delivered: Delivered) {
        let op = self.next_pushed.fetch_add(1, Ordering::Relaxed);
        let (id, attempt) = (delivered.id, delivered.attempt);
        self.pushed.lock().unwrap().push(Pushed { op, queue, id, attempt });
        self.ok(op, Answer::Leased(vec![delivered]));
    }

    /// Reads the store that servers left behind, to judge everything by it. `drained` says that all jobs had ended.
    pub(crate) async fn evidence(
        &self,
        store: &Arc<dyn Store>,
        drained: bool,
    ) -> Result<Evidence, StoreError> {
        let histories = histories(store).await?;
        let book = self.book(&histories);
        let keyed = book.publishes().filter_map(|(s, _)| Some((s.queue.clone(), s.key()?.clone())));
        let mut survey = Survey::read(store, keyed.collect::<Vec<_>>()).await?;
        survey.drained = drained;
        for history in histories.iter().filter(|history| history.was_last_put_off()) {
            // The token of a delivery that went to nobody: there is no witness it could be compared with.
            survey.jobs.entry(history.id).and_modify(|found| found.settled = None);
        }
        Ok(Evidence { book, survey })
    }

    fn book(&self, histories: &[History]) -> Book {
        let mut book = Book::new();
        let promises = self.promises.lock().unwrap();
        promises.iter().for_each(|promise| book.add(Entry::Queue(promise.clone())));
        book.add(Entry::Invoke { op: UPKEEP, at: self.began, call: Call::Rescue });
        let pushed = self.pushed.lock().unwrap();
        for push in pushed.iter() {
            let call = Call::Lease { queue: push.queue.clone(), duration: Millis::from_secs(1) };
            book.add(Entry::Invoke { op: push.op, at: self.began, call });
        }
        histories
            .iter()
            .flat_map(|history| history.deferred_unheard(self.began))
            .for_each(|entry| book.add(entry));
        book.read(&self.tape.take()).expect("a recorder writes what can be read");
        let heard: HashSet<(JobId, u32)> = pushed.iter().map(|push| (push.id, push.attempt)).collect();
        let ended = histories.iter().flat_map(|history| history.ended_unheard(&heard)).collect();
        book.add(Entry::Ok { op: UPKEEP, at: latest(), answer: Answer::Rescued(ended) });
        book
    }
}

/// What was said, and what was found.
pub(crate) struct Evidence {
    book: Book,
    survey: Survey,
}

impl Evidence {
    pub(crate) fn report(&self) -> Report {
        check(&self.book, &self.survey)
    }

    /// The jobs that a publish was answered with and that are not there, and when that was at the latest.
    pub(crate) fn lost(&self) -> Vec<(JobId, Timestamp)> {
        let answers = self.book.publishes().flat_map(|(_, publishes)| publishes);
        let named = answers.filter_map(|publish| Some((publish.answer?.id, publish.span.until)));
        named.filter(|(id, _)| !self.survey.jobs.contains_key(id)).collect()
    }
}

/// The attempts of a job, as the store has them.
struct History {
    id: JobId,
    pushed: bool,
    attempts: Vec<Attempt>,
}

impl History {
    /// The job, once for every attempt that the server ended without a word of a worker: leases that ran out, and
    /// webhooks that could not be reached.
    fn ended_unheard(&self, heard: &HashSet<(JobId, u32)>) -> Vec<JobId> {
        let unheard = |attempt: &&Attempt| match attempt.status {
            AttemptStatus::Expired => true,
            AttemptStatus::Failed => self.pushed && !heard.contains(&(self.id, attempt.number)),
            AttemptStatus::Success | AttemptStatus::Nacked | AttemptStatus::Deferred => false,
        };
        self.attempts.iter().filter(unheard).map(|_| self.id).collect()
    }

    /// Whether the server itself put a push off: a webhook that asks for time does it with a status.
    fn was_put_off(&self, attempt: &Attempt) -> bool {
        self.pushed && attempt.status == AttemptStatus::Deferred && attempt.status_code.is_none()
    }

    fn was_last_put_off(&self) -> bool {
        self.attempts.last().is_some_and(|last| self.was_put_off(last))
    }

    /// A settle of unknown fate for every deferral that no webhook asked for: the server had not the means, or ended. It
    /// has a token below all others, because nobody knows which it was.
    fn deferred_unheard(&self, at: Timestamp) -> Vec<Entry> {
        let own =
            |attempt: &&Attempt| attempt.status == AttemptStatus::Deferred && attempt.status_code.is_none();
        let deferrals = self.attempts.iter().filter(|_| self.pushed).filter(own).zip(1..);
        let entries = deferrals.flat_map(|(_, number)| {
            let call = Call::Settle { id: self.id, token: Token::from_raw(number), say: Say::Defer };
            let why = "the server put it off".to_owned();
            [Entry::Invoke { op: PUT_OFF, at, call }, Entry::Unknown { op: PUT_OFF, why }]
        });
        entries.collect()
    }
}

async fn histories(store: &Arc<dyn Store>) -> Result<Vec<History>, StoreError> {
    let queues = store.queues().await?;
    let pushes = |name: &QueueName| {
        let of = queues.iter().find(|queue| queue.name == *name);
        of.is_some_and(|queue| matches!(queue.config.delivery, semel_core::queue::Delivery::Push(_)))
    };
    let (mut all, mut query) = (Vec::new(), JobQuery { limit: PAGE_MAX, ..JobQuery::default() });
    loop {
        let page = store.jobs(query.clone()).await?;
        all.extend(page.items.into_iter().map(|job| History {
            id: job.id,
            pushed: pushes(&job.spec.queue),
            attempts: job.progress.history,
        }));
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(all),
        }
    }
}
