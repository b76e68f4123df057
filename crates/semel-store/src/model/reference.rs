//! The reference: the memory store's tables, and what they answered to the last step.

use std::fmt;

use proptest::test_runner::TestCaseError;
use semel_core::ids::{JobId, Token};
use semel_core::job::Overrides;
use semel_core::key::Key;
use semel_core::lease::{Delivery, Extend, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::Group;
use semel_core::payload::Payload;
use semel_core::publish::{DELAY_MAX, Draft};
use semel_core::settle::Settle;
use semel_core::time::{Millis, Timestamp};

use super::queues::{self, QUEUES};
use super::read::never_late;
use super::step::{Advance, Filter, GROUPS, KEYS, Op, PAYLOADS, Pick, Post, Scene, Start, Step, When, Whose};
use super::system::{Check, same};
use crate::command::{Answer, Command, Reply};
use crate::memory::Tables;
use crate::query::JobQuery;
use crate::stats::QueueStats;

/// A token that no store hands out: tokens start at the first epoch.
const FORGED: Token = Token::from_raw(u64::MAX);
/// An id that no generator makes.
const UNKNOWN: JobId = JobId::ZERO;

/// The model of a store. It runs the history alone while proptest makes it, and beside the system when it is checked.
#[derive(Clone)]
pub(super) struct Reference {
    pub(super) tables: Tables,
    pub(super) now: Timestamp,
    /// Every job published, in order, those that are gone included.
    pub(super) jobs: Vec<JobId>,
    /// Every delivery, in order.
    deliveries: Vec<(JobId, Token)>,
    /// Whether there was a crash: it may take the traces of suppressed publishes with it.
    pub(super) crashed: bool,
    /// The last step as calls to a store, with the answers.
    pub(super) call: Call,
    start: Start,
}

/// A step as calls to a store, with what the reference answered.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Apply(Vec<Command>, Vec<Answer>),
    Lease(LeaseRequest, Vec<Delivery>),
    Advance(Millis),
    Prune { slice: u32, dropped: u32, stripped: u32 },
    Crash,
    List(JobQuery),
    ReadAll,
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} jobs, {}", self.start, self.jobs.len(), self.now.millis())
    }
}

impl Reference {
    /// A store with its queues; the call that put them there is its last.
    pub(super) fn new(now: Timestamp, start: Start) -> Self {
        let (tables, call) = (Tables::new(1), Call::ReadAll);
        let empty =
            Self { tables, now, jobs: Vec::new(), deliveries: Vec::new(), crashed: false, call, start };
        let put = |(queue, shape)| Op::PutQueue { queue, shape };
        empty.next(&Step::Apply(start.shapes.into_iter().enumerate().map(put).collect()))
    }

    /// The reference after a step.
    pub(super) fn next(mut self, step: &Step) -> Self {
        self.call = match step {
            Step::Apply(ops) => self.apply(ops),
            Step::Lease { queue, max, secs } => self.lease(*queue, *max, *secs),
            Step::Advance(advance) => self.advance(*advance),
            Step::Prune { slice } => self.prune(*slice),
            Step::Crash => self.crash(),
            Step::List(filter) => Call::List(self.query(filter)),
            Step::ReadAll => Call::ReadAll,
        };
        self
    }

    /// What is going on, for the choice of the next step.
    pub(super) fn scene(&self) -> Scene {
        let stats = self.tables.stats(self.now);
        let any = |count: fn(&QueueStats) -> u64| stats.queues.iter().any(|queue| count(queue) > 0);
        Scene {
            favourite: self.start.favourite,
            waiting: any(|queue| queue.pending),
            out: any(|queue| queue.processing + queue.awaiting_ack),
            dead: any(|queue| queue.dead),
            expired: self.tables.next_expiry().is_some_and(|deadline| deadline <= self.now),
        }
    }

    /// Whether a lease would get something at `time`, if nothing else happened until then.
    pub(super) fn has_something_at(&self, queue: usize, time: Timestamp) -> bool {
        let request = LeaseRequest::new(queues::name(queue), 1, None).expect("one is a fine number");
        !self.tables.clone().lease(&request, time).is_empty()
    }

    /// Checks the reference itself: its indexes, and that it knows exactly when it will have something.
    pub(super) fn audit(&self) -> Check {
        self.tables.audit().map_err(TestCaseError::fail)?;
        for queue in 0..QUEUES.len() {
            let due = self.tables.next_due(&queues::name(queue), self.now);
            never_late(self, queue, due)?;
            let early = due.is_some_and(|time| !self.has_something_at(queue, time.max(self.now)));
            same("whether the reference is early to say that it has something", &false, &early)?;
        }
        Ok(())
    }

    fn apply(&mut self, ops: &[Op]) -> Call {
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        for op in ops {
            // One by one, so that a command can be about a job that the same batch publishes.
            let command = self.command(op);
            let answer = self.tables.apply(command.clone(), self.now);
            if let Ok(Reply::Published(published)) = &answer
                && !published.deduplicated
            {
                self.jobs.push(published.id);
            }
            batch.push(command);
            answers.push(answer);
        }
        Call::Apply(batch, answers)
    }

    fn lease(&mut self, queue: usize, max: u32, secs: Option<u64>) -> Call {
        let request = LeaseRequest::new(queues::name(queue), max, secs.map(Millis::from_secs));
        let request = request.expect("steps ask for sane leases");
        let deliveries = self.tables.lease(&request, self.now);
        self.deliveries.extend(deliveries.iter().map(|delivery| (delivery.id, delivery.token)));
        Call::Lease(request, deliveries)
    }

    fn advance(&mut self, advance: Advance) -> Call {
        let (to, early) = match advance {
            Advance::By(span) => (Some(self.now.plus(span)), false),
            Advance::ToDue { queue, early } => (self.tables.next_due(&queues::name(queue), self.now), early),
            Advance::ToExpiry { early } => (self.tables.next_expiry(), early),
            Advance::ToKeyEnd { queue, key, early } => {
                let record = self.tables.key_record(&queues::name(queue), &self::key(key), self.now);
                (record.and_then(|record| record.expires_at), early)
            }
            Advance::ToRetentionEnd { early } => (self.retention_end(), early),
        };
        let span = to.unwrap_or(self.now).since(self.now).minus(Millis::from_millis(early.into()));
        self.now = self.now.plus(span);
        Call::Advance(span)
    }

    /// When the retention of the job that finished last is over.
    fn retention_end(&self) -> Option<Timestamp> {
        let jobs = self.jobs.iter().filter_map(|id| self.tables.job(*id));
        let last = jobs.max_by_key(|job| job.progress.finished_at)?;
        let retention = self.tables.queue_record(&last.spec.queue)?.config.retention;
        let dead = last.progress.state == State::Dead;
        Some(last.progress.finished_at?.plus(if dead { retention.dead } else { retention.completed }))
    }

    fn prune(&mut self, slice: u32) -> Call {
        let (mut all_dropped, mut all_stripped) = (0, 0);
        while let Ok(Reply::Pruned { dropped, stripped, more }) =
            self.tables.apply(Command::Prune { limit: slice }, self.now)
        {
            all_dropped += dropped;
            all_stripped += stripped;
            if !more {
                break;
            }
        }
        Call::Prune { slice, dropped: all_dropped, stripped: all_stripped }
    }

    fn crash(&mut self) -> Call {
        self.tables.crash();
        self.crashed = true;
        Call::Crash
    }

    fn query(&self, filter: &Filter) -> JobQuery {
        JobQuery {
            queue: filter.queue.map(queues::name),
            state: filter.state,
            key: filter.key.map(key),
            group: filter.group.map(group),
            metadata: if filter.tagged { vec![tag()] } else { Vec::new() },
            from: filter.since.map(|span| Timestamp::from_millis(self.now.millis() - span.millis())),
            to: filter.since.map(|_| self.now),
            duplicated: None,
            limit: filter.page,
            cursor: None,
        }
    }

    fn command(&self, op: &Op) -> Command {
        match op {
            Op::Publish(post) => Command::Publish(self.publish(post)),
            Op::Settle { pick, token, outcome, report } => {
                let (id, token) = self.delivery(*pick, *token);
                let settle = Settle::new(id, token, outcome.clone(), report.clone());
                Command::Settle(settle.expect("steps settle within the limits"))
            }
            Op::Extend { pick, token, secs } => {
                let (id, token) = self.delivery(*pick, *token);
                let extend = Extend::new(id, token, Millis::from_secs(*secs));
                Command::Extend(extend.expect("steps extend within the limits"))
            }
            Op::Cancel(pick) => Command::Cancel(self.job(*pick, |state| !state.is_finished())),
            Op::Bury(pick) => {
                Command::Bury { id: self.job(*pick, |state| !state.is_finished()), reason: "asked".into() }
            }
            Op::Replay(pick) => Command::Replay(self.job(*pick, |state| state == State::Dead)),
            Op::Purge(pick) => Command::Purge(self.job(*pick, |state| state == State::Dead)),
            Op::ReleaseKey { queue, key } => Command::ReleaseKey {
                queue: queues::name(*queue),
                key: self::key(*key),
                reason: "asked".into(),
            },
            Op::PutQueue { queue, shape } => {
                Command::PutQueue { name: queues::name(*queue), config: Box::new(queues::shape(*shape)) }
            }
            Op::DeleteQueue { queue } => Command::DeleteQueue(queues::name(*queue)),
            Op::Pause { queue, paused } => Command::Pause { queue: queues::name(*queue), paused: *paused },
            Op::Rescue { limit } => Command::Rescue { limit: *limit },
            Op::Record(op) => self.record(*op),
        }
    }

    fn publish(&self, post: &Post) -> semel_core::publish::Publish {
        let payload = Payload::from_parsed(PAYLOADS[post.payload]);
        let mut draft = Draft::new(queues::name(post.queue), payload);
        draft.key = post.key.map(key);
        draft.group = post.group.map(group);
        draft.priority = post.priority;
        draft.overrides =
            Overrides { max_attempts: post.max_attempts, window: post.window, ..Overrides::default() };
        draft.metadata.extend(post.tagged.then(tag));
        draft.publisher = post.publisher.then(|| "till 4".into());
        match post.when {
            When::Now => {}
            When::After(span) => draft.delay = Some(span),
            When::At(span) => draft.run_at = Some(self.now.plus(span)),
            When::LongAgo => draft.run_at = Some(Timestamp::from_millis(1)),
            When::TooFar => draft.run_at = Some(self.now.plus(DELAY_MAX).plus(Millis::from_millis(1))),
        }
        draft.check().expect("steps publish within the limits")
    }

    /// A job, among those in a fitting state or among all.
    fn job(&self, pick: Pick, fits: impl Fn(State) -> bool) -> JobId {
        let fits =
            |id: &JobId| !pick.fitting || self.tables.job(*id).is_some_and(|job| fits(job.progress.state));
        from_the_end(self.jobs.iter().copied().filter(fits), pick.back).unwrap_or(UNKNOWN)
    }

    /// A delivery, among those that are out or among all: its job, and a token for it.
    fn delivery(&self, pick: Pick, whose: Whose) -> (JobId, Option<Token>) {
        let is_out = |id: JobId| self.tables.job(id).is_some_and(|job| job.progress.state.is_leased());
        let fits = |(id, _): &(JobId, Token)| !pick.fitting || is_out(*id);
        let among = || self.deliveries.iter().copied().filter(fits);
        let Some((id, own)) = from_the_end(among(), pick.back) else {
            return (self.job(pick, |_| true), None);
        };
        let another = from_the_end(among(), pick.back + 1).map(|(_, token)| token);
        match whose {
            Whose::Own => (id, Some(own)),
            Whose::Nobodys => (id, None),
            Whose::Anothers => (id, another),
            Whose::Forged => (id, Some(FORGED)),
        }
    }
}

/// The item `back` places from the end; further back than there is, the count starts again at the end.
fn from_the_end<T>(items: impl Iterator<Item = T>, back: usize) -> Option<T> {
    let mut items: Vec<_> = items.collect();
    let place = items.len().checked_sub(1)? - back % items.len();
    Some(items.swap_remove(place))
}

/// One of the keys.
pub(super) fn key(key: usize) -> Key {
    Key::try_from(KEYS[key]).expect("the keys are plain")
}

fn group(group: usize) -> Group {
    Group::try_from(GROUPS[group]).expect("the groups are plain")
}

fn tag() -> (String, String) {
    ("tenant".into(), "42".into())
}
