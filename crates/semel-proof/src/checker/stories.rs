//! Histories told by hand, for the tests of the invariants: one call after another, each answered at once unless said.

use std::fmt::Write;

use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

use super::{Invariant, Report, check};
use crate::book::Book;
use crate::history::{Answer, Call, Delivered, Entry, Op, Promise, Say};
use crate::survey::{Found, Survey};

pub(super) const CAP: u32 = 3;
pub(super) const WINDOW: Millis = Millis::from_secs(10);
const KEEP: Millis = Millis::from_secs(5);

/// A story in the making: a history, and the store at its end.
pub(super) struct Story {
    lines: String,
    op: Op,
    pub(super) now: u64,
    pub(super) survey: Survey,
}

pub(super) fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

pub(super) fn key(n: u64) -> Key {
    Key::try_from(format!("k{n}")).unwrap()
}

pub(super) fn job(n: u64) -> JobId {
    JobId::from_raw(n).unwrap()
}

/// The job `n` of the stories: key `n`, digest `n`.
pub(super) fn found(n: u64, state: State, attempts: u32) -> Found {
    Found {
        queue: queue(),
        key: Some(key(n)),
        digest: Some(n),
        created_at: Timestamp::from_millis(1000),
        state,
        attempts,
        deferrals: 0,
        finished_at: state.is_finished().then(|| Timestamp::from_millis(2000)),
        settled: None,
        released: false,
    }
}

impl Story {
    pub(super) fn new() -> Self {
        let mut story = Self { lines: String::new(), op: 0, now: 1000, survey: Survey::default() };
        story.add(&Entry::Queue(Promise { queue: queue(), cap: CAP, window: WINDOW, keep: KEEP }));
        story
    }

    fn add(&mut self, entry: &Entry) {
        writeln!(self.lines, "{entry}").unwrap();
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(super) fn invoke(&mut self, call: Call) -> Op {
        (self.op, self.now) = (self.op + 1, self.now + 1);
        self.add(&Entry::Invoke { op: self.op, at: self.time(), call });
        self.op
    }

    pub(super) fn ok(&mut self, op: Op, answer: Answer) {
        self.now += 1;
        self.add(&Entry::Ok { op, at: self.time(), answer });
    }

    pub(super) fn fail(&mut self, op: Op) {
        self.add(&Entry::Fail { op, why: "refused".into() });
    }

    fn both(&mut self, call: Call, answer: Answer) -> &mut Self {
        let op = self.invoke(call);
        self.ok(op, answer);
        self
    }

    pub(super) fn publish_call(n: u64, delay: u64) -> Call {
        Call::Publish { queue: queue(), key: Some(key(n)), digest: n, delay: Millis::from_millis(delay) }
    }

    pub(super) fn published(&self, id: u64, deduplicated: bool) -> Answer {
        Answer::Published { id: job(id), created_at: self.time(), deduplicated, matches: true }
    }

    /// Key `n` is published and answered with job `id`.
    pub(super) fn publish(&mut self, n: u64, id: u64) -> &mut Self {
        let answer = self.published(id, n != id);
        self.both(Self::publish_call(n, 0), answer)
    }

    /// Key `n` is published again and answered with job `id`.
    pub(super) fn repeat(&mut self, n: u64, id: u64) -> &mut Self {
        let answer = self.published(id, true);
        self.both(Self::publish_call(n, 0), answer)
    }

    pub(super) fn lease_call() -> Call {
        Call::Lease { queue: queue(), duration: Millis::from_secs(1) }
    }

    pub(super) fn delivered(&self, n: u64, token: u64, attempt: u32) -> Delivered {
        Delivered {
            id: job(n),
            token: Token::from_raw(token),
            attempt,
            max_attempts: CAP,
            deferrals: 0,
            deadline: self.time().plus(Millis::from_secs(1)),
            digest: n,
            key: Some(key(n)),
        }
    }

    /// Job `n` is delivered.
    pub(super) fn deliver(&mut self, n: u64, token: u64, attempt: u32) -> &mut Self {
        let delivered = self.delivered(n, token, attempt);
        self.deliver_as(delivered)
    }

    pub(super) fn deliver_as(&mut self, delivered: Delivered) -> &mut Self {
        self.both(Self::lease_call(), Answer::Leased(vec![delivered]))
    }

    pub(super) fn settle_call(n: u64, token: u64, say: Say) -> Call {
        Call::Settle { id: job(n), token: Token::from_raw(token), say }
    }

    /// A delivery of job `n` is settled, which leaves the job in `state`, due `wait` ms later if it is pending.
    pub(super) fn settle(&mut self, n: u64, token: u64, say: Say, state: State, wait: u64) -> &mut Self {
        let due = (state == State::Pending).then(|| self.time().plus(Millis::from_millis(wait)));
        self.both(Self::settle_call(n, token, say), Answer::Settled { state, due, repeated: false })
    }

    pub(super) fn ack(&mut self, n: u64, token: u64) -> &mut Self {
        self.settle(n, token, Say::Ack, State::Completed, 0)
    }

    pub(super) fn extend(&mut self, n: u64, token: u64, until: u64) -> &mut Self {
        let call = Call::Extend { id: job(n), token: Token::from_raw(token) };
        self.both(call, Answer::Extended { until: Timestamp::from_millis(until) })
    }

    pub(super) fn cancel(&mut self, n: u64) -> &mut Self {
        self.both(Call::Cancel { id: job(n) }, Answer::Cancelled)
    }

    pub(super) fn rescue(&mut self, n: u64) -> &mut Self {
        self.both(Call::Rescue, Answer::Rescued(vec![job(n)]))
    }

    pub(super) fn restart(&mut self) -> &mut Self {
        self.add(&Entry::Restart { at: Timestamp::from_millis(self.now) });
        self
    }

    pub(super) fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms;
        self
    }

    /// The store at the end holds job `n`.
    pub(super) fn found(&mut self, n: u64, found: Found) -> &mut Self {
        self.survey.jobs.insert(job(n), found);
        self
    }

    /// The verdict. Counters are those of the listing unless the story has set them, and stories are always long enough.
    pub(super) fn check(&mut self) -> Report {
        let mut book = Book::new();
        book.read(&self.lines).unwrap();
        assert_eq!(book.objections(), <&[String]>::default());
        self.survey.at = Timestamp::from_millis(self.now);
        if self.survey.stats.queues.is_empty() {
            self.survey.stats = super::i7_counters::count(&self.survey);
        }
        Report { invalid: None, ..check(&book, &self.survey) }
    }

    pub(super) fn assert_holds(&mut self) {
        let report = self.check();
        assert_eq!(report.count, 0, "{report}\n{}", self.lines);
    }

    pub(super) fn assert_breaks(&mut self, invariant: Invariant) {
        let report = self.check();
        assert!(report.breaks(invariant), "{report}\n{}", self.lines);
    }
}
