//! A history by subject: what was asked and answered about each key and each job.
//!
//! The book only sorts; it judges nothing. Entries of concurrent callers are written in some order that need not be that
//! of their effects, so everything carries the [`Span`] from its invocation to its answer, and a check may only rely on
//! "the answer of this came before the invocation of that".

mod trace;

use std::collections::HashMap;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

pub use trace::{Act, Deed, Fate, JobTrace, LostLease, LostRescue, PublishTrace, Span};

use crate::history::{Answer, BadLine, Call, Delivered, Digest, Entry, Op, Promise};

/// What makes a publish one of a kind: its key, or, without one, its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Claim {
    /// The key.
    Key(Key),
    /// The payload of a publish without a key. The workload never repeats one.
    Payload(Digest),
}

/// A claim in its queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The queue.
    pub queue: QueueName,
    /// The claim.
    pub claim: Claim,
}

impl Subject {
    /// The subject of a publish or a job.
    pub fn new(queue: QueueName, key: Option<Key>, digest: Digest) -> Self {
        Self { queue, claim: key.map_or(Claim::Payload(digest), Claim::Key) }
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<&Key> {
        match &self.claim {
            Claim::Key(key) => Some(key),
            Claim::Payload(_) => None,
        }
    }
}

/// A history, sorted by subject and job.
#[derive(Debug, Default)]
pub struct Book {
    promises: HashMap<QueueName, Promise>,
    publishes: HashMap<Subject, Vec<PublishTrace>>,
    jobs: HashMap<JobId, JobTrace>,
    open: HashMap<Op, Open>,
    lost_rescues: Vec<LostRescue>,
    lost_leases: Vec<LostLease>,
    line: u64,
    round: u32,
    oks: u64,
    objections: Vec<String>,
}

/// A call whose answer has not come.
#[derive(Debug)]
struct Open {
    span: Span,
    what: Pending,
}

#[derive(Debug)]
enum Pending {
    Publish { subject: Subject, index: usize },
    Lease { queue: QueueName, duration: Millis },
    Act { id: JobId, index: usize },
    Rescue,
    Prune,
}

impl Book {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads lines into the book. A last line without its end was cut off by a kill, and was never said.
    pub fn read(&mut self, text: &str) -> Result<(), BadLine> {
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).try_for_each(|line| {
            self.add(line.parse()?);
            Ok(())
        })
    }

    /// Adds one entry.
    pub fn add(&mut self, entry: Entry) {
        self.line += 1;
        match entry {
            Entry::Queue(promise) => drop(self.promises.insert(promise.queue.clone(), promise)),
            Entry::Invoke { op, at, call } => self.invoke(op, at, call),
            Entry::Ok { op, at, answer } => self.ok(op, at, answer),
            Entry::Fail { op, .. } => self.close(op, Fate::Failed),
            Entry::Unknown { op, .. } => self.close(op, Fate::Unknown),
            Entry::Restart { at } => self.restart(at),
        }
    }

    fn invoke(&mut self, op: Op, at: Timestamp, call: Call) {
        let span = Span::open(self.round, self.line, at);
        let what = match call {
            Call::Publish { queue, key, digest, delay } => {
                let subject = Subject::new(queue, key, digest);
                let publishes = self.publishes.entry(subject.clone()).or_default();
                publishes.push(PublishTrace::new(span, digest, delay));
                Pending::Publish { subject, index: publishes.len() - 1 }
            }
            Call::Lease { queue, duration } => Pending::Lease { queue, duration },
            Call::Settle { id, token, say } => self.act(id, span, Deed::Settle { token, say, reply: None }),
            Call::Extend { id, token } => self.act(id, span, Deed::Extend { token, until: None }),
            Call::Cancel { id } => self.act(id, span, Deed::Cancel),
            Call::Rescue => Pending::Rescue,
            Call::Prune => Pending::Prune,
        };
        self.open.insert(op, Open { span, what });
    }

    fn act(&mut self, id: JobId, span: Span, deed: Deed) -> Pending {
        let acts = &mut self.jobs.entry(id).or_default().acts;
        acts.push(Act { span, fate: Fate::Unknown, deed });
        Pending::Act { id, index: acts.len() - 1 }
    }

    fn ok(&mut self, op: Op, at: Timestamp, answer: Answer) {
        let Some(open) = self.open.remove(&op) else {
            return self.object(format!("an answer to operation {op:x}, which was not open"));
        };
        self.oks += 1;
        let span = open.span.closed(self.line, at);
        match (open.what, answer) {
            (
                Pending::Publish { subject, index },
                Answer::Published { id, created_at, deduplicated, matches },
            ) => {
                self.jobs.entry(id).or_default().subject.get_or_insert_with(|| subject.clone());
                let publish = &mut self.publishes.entry(subject).or_default()[index];
                publish.span = span;
                publish.answered(id, created_at, deduplicated, matches);
            }
            (Pending::Lease { queue, .. }, Answer::Leased(all)) => {
                all.into_iter().for_each(|delivered| self.delivered(&queue, span, delivered));
            }
            (Pending::Act { id, index }, answer) => {
                let act = &mut self.jobs.entry(id).or_default().acts[index];
                act.span = span;
                if !act.answered(answer) {
                    self.object(format!("an answer of the wrong kind to operation {op:x}"));
                }
            }
            (Pending::Rescue, Answer::Rescued(jobs)) => {
                for id in jobs {
                    self.jobs.entry(id).or_default().acts.push(Act {
                        span,
                        fate: Fate::Ok,
                        deed: Deed::Rescued,
                    });
                }
            }
            (Pending::Prune, Answer::Pruned { .. }) => {}
            _ => self.object(format!("an answer of the wrong kind to operation {op:x}")),
        }
    }

    fn delivered(&mut self, queue: &QueueName, span: Span, delivered: Delivered) {
        let job = self.jobs.entry(delivered.id).or_default();
        job.subject
            .get_or_insert_with(|| Subject::new(queue.clone(), delivered.key.clone(), delivered.digest));
        job.acts.push(Act { span, fate: Fate::Ok, deed: Deed::Deliver { queue: queue.clone(), delivered } });
    }

    fn close(&mut self, op: Op, fate: Fate) {
        let Some(open) = self.open.remove(&op) else {
            return self.object(format!("an end of operation {op:x}, which was not open"));
        };
        let round = open.span.round;
        match open.what {
            Pending::Publish { subject, index } => {
                self.publishes.entry(subject).or_default()[index].fate = fate;
            }
            Pending::Act { id, index } => self.jobs.entry(id).or_default().acts[index].fate = fate,
            Pending::Lease { queue, duration } if fate == Fate::Unknown => {
                self.lost_leases.push(LostLease { round, queue, expires: open.span.from.plus(duration) });
            }
            Pending::Rescue if fate == Fate::Unknown => {
                self.lost_rescues.push(LostRescue { round, until: Timestamp::from_millis(u64::MAX) });
            }
            Pending::Lease { .. } | Pending::Rescue | Pending::Prune => {}
        }
    }

    /// Ends what the process that is gone left open: nobody knows about it.
    fn restart(&mut self, at: Timestamp) {
        let mut open: Vec<Op> = self.open.keys().copied().collect();
        open.sort_unstable();
        for op in open {
            self.close(op, Fate::Unknown);
        }
        for rescue in self.lost_rescues.iter_mut().filter(|rescue| rescue.round == self.round) {
            rescue.until = at;
        }
        self.round += 1;
    }

    fn object(&mut self, what: String) {
        self.objections.push(what);
    }

    /// What the jobs of a queue were promised.
    pub fn promise(&self, queue: &QueueName) -> Option<&Promise> {
        self.promises.get(queue)
    }

    /// Every subject and its publishes, in the order of their invocations.
    pub fn publishes(&self) -> impl Iterator<Item = (&Subject, &[PublishTrace])> {
        self.publishes.iter().map(|(subject, publishes)| (subject, publishes.as_slice()))
    }

    /// The publishes of one subject.
    pub fn publishes_of(&self, subject: &Subject) -> &[PublishTrace] {
        self.publishes.get(subject).map_or(&[], Vec::as_slice)
    }

    /// Every job that was mentioned.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &JobTrace)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// One job.
    pub fn job(&self, id: JobId) -> Option<&JobTrace> {
        self.jobs.get(&id)
    }

    /// How many operations were answered.
    pub fn oks(&self) -> u64 {
        self.oks
    }

    /// What is wrong with the history itself: an answer nobody asked for.
    pub fn objections(&self) -> &[String] {
        &self.objections
    }

    /// Whether a rescue nobody heard of may have ended a lease of this job, and so counted an attempt.
    pub fn may_have_expired_unheard(&self, job: &JobTrace) -> bool {
        self.lost_rescues.iter().any(|rescue| {
            let seen = job.deliveries().any(|(span, delivered)| {
                span.round == rescue.round && job.earliest_lease_end(delivered) <= rescue.until
            });
            seen || self.lost_leases.iter().any(|lease| {
                let same_queue = job.subject.as_ref().is_some_and(|subject| subject.queue == lease.queue);
                same_queue && lease.round == rescue.round && lease.expires <= rescue.until
            })
        })
    }
}
