//! What the memory store keeps: jobs, and indexes that follow from them.
//!
//! A job changes only through [`Tables::change`], which takes it out of the indexes, changes it and puts it back. So an
//! index can be no other than what the jobs say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use semel_core::ids::{IdGenerator, JobId, Token};
use semel_core::job::{Job, JobSpec};
use semel_core::key::Key;
use semel_core::lease::Lease;
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::refusal::Refusal;
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

use super::queue::{Queue, QueueId};
use crate::query::Suppressed;

/// A job with what a store knows of it besides.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The job as a crash would leave it. A lease is not part of it, so a leased job is pending here.
    pub job: Job,
    /// The queue it was published to, which may have been deleted since.
    pub queue: QueueId,
    /// The delivery that is out.
    pub lease: Option<Lease>,
    /// Whether its group lets it go out; always true for a job that no group gates.
    pub open: bool,
    /// The newest publishes that were answered with this job.
    pub suppressed: VecDeque<Suppressed>,
}

impl Stored {
    /// Where the job stands, its lease included.
    pub fn state(&self) -> State {
        match &self.lease {
            None => self.job.progress.state,
            Some(lease) if lease.received => State::AwaitingAck,
            Some(_) => State::Processing,
        }
    }

    /// The job as callers see it.
    pub fn shown(&self) -> Job {
        let mut job = self.job.clone();
        job.progress.state = self.state();
        job
    }

    /// What is left when its retention is over but its key still holds.
    #[must_use]
    pub fn stripped(&self) -> Self {
        let (spec, progress) = (Arc::new(self.job.spec.stripped()), self.job.progress.stripped());
        Self { job: Job { spec, progress, ..self.job.clone() }, ..self.clone() }
    }

    /// Whether only time and the queue's gate keep it from going out.
    pub(super) fn is_eligible(&self) -> bool {
        self.state() == State::Pending && self.open
    }

    /// The group in whose line it stands: gated and not finished.
    pub fn line(&self) -> Option<&Group> {
        let gated = self.job.spec.gated && !self.job.progress.state.is_finished();
        self.job.spec.group.as_ref().filter(|_| gated)
    }

    /// Its place in that line: by when it joined, then by id. A replay joins the end again, and is due at that very time.
    pub fn place(&self) -> (Timestamp, JobId) {
        let progress = &self.job.progress;
        let joined = if progress.replays > 0 { progress.due } else { self.job.spec.created_at };
        (joined, self.job.id)
    }
}

/// Everything the store keeps.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(super) jobs: BTreeMap<JobId, Stored>,
    pub(super) queues: BTreeMap<QueueName, Queue>,
    /// Every kept job of each key; the newest decides about the key.
    pub(super) keys: BTreeMap<(QueueId, Key), BTreeSet<JobId>>,
    /// When the leases run out.
    deadlines: BTreeSet<(Timestamp, JobId)>,
    pub(super) schedules: BTreeMap<String, ScheduleRecord>,
    pub(super) api_keys: BTreeMap<String, ApiKeyRecord>,
    pub(super) replays: BTreeMap<String, ReplayRecord>,
    pub(super) ids: IdGenerator,
    pub(super) queues_made: u64,
    /// The last finished job that the pass of pruning under way has looked at.
    pub(super) pruned_to: Option<JobId>,
    epoch: u32,
    last_token: Token,
}

impl Tables {
    /// Nothing, with tokens of this epoch.
    pub(crate) fn new(epoch: u32) -> Self {
        Self {
            jobs: BTreeMap::new(),
            queues: BTreeMap::new(),
            keys: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            schedules: BTreeMap::new(),
            api_keys: BTreeMap::new(),
            replays: BTreeMap::new(),
            ids: IdGenerator::new(0),
            queues_made: 0,
            pruned_to: None,
            epoch,
            last_token: Token::first(epoch),
        }
    }

    /// What a crash leaves of it. The generator of ids goes on above every id it ever made, dropped jobs' included: an id
    /// that came back would make an old link lead to another job.
    pub(crate) fn crash(&mut self) {
        let leased: Vec<_> = self.deadlines.iter().map(|(_, id)| *id).collect();
        for id in leased {
            self.change(id, |stored| stored.lease = None);
        }
        for queue in self.queues.values_mut() {
            queue.gate.restarted();
        }
        self.pruned_to = None;
        self.epoch += 1;
        self.last_token = Token::first(self.epoch);
    }

    /// A token greater than every one before.
    pub(super) fn next_token(&mut self) -> Token {
        self.last_token = self.last_token.next();
        self.last_token
    }

    /// A job that must be there for the command to make sense.
    pub(super) fn found(&self, id: JobId) -> Result<&Stored, Refusal> {
        self.jobs.get(&id).ok_or(Refusal::JobNotFound(id))
    }

    /// A queue that must be there for the command to make sense.
    pub(super) fn found_queue(&self, name: &QueueName) -> Result<&Queue, Refusal> {
        self.queues.get(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))
    }

    /// The queue a job was published to, unless that one was deleted.
    pub(super) fn queue_of(&self, stored: &Stored) -> Option<&Queue> {
        self.queues.get(&stored.job.spec.queue).filter(|queue| queue.id == stored.queue)
    }

    /// The newest kept job that was published under a key.
    pub(super) fn newest(&self, queue: QueueId, key: &Key) -> Option<&Stored> {
        let id = self.keys.get(&(queue, key.clone()))?.last()?;
        self.jobs.get(id)
    }

    /// The leases that have run out, in the order they did.
    pub(super) fn expired(&self, now: Timestamp) -> impl Iterator<Item = JobId> {
        self.deadlines.iter().take_while(move |(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    /// When the earliest lease runs out.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Keeps a new job.
    pub(super) fn insert(&mut self, stored: Stored) {
        let id = stored.job.id;
        if let Some(key) = &stored.job.spec.key {
            self.keys.entry((stored.queue, key.clone())).or_default().insert(id);
        }
        self.jobs.insert(id, stored);
        self.link(id);
    }

    /// Lets a job go.
    pub(super) fn remove(&mut self, id: JobId) {
        self.unlink(id);
        let Some(stored) = self.jobs.remove(&id) else { return };
        let Some(key) = &stored.job.spec.key else { return };
        let place = (stored.queue, key.clone());
        if let Some(ids) = self.keys.get_mut(&place) {
            ids.remove(&id);
            if ids.is_empty() {
                self.keys.remove(&place);
            }
        }
    }

    /// Changes a job, and the indexes with it.
    pub(super) fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Stored) -> R) -> R {
        self.unlink(id);
        let result = change(self.jobs.get_mut(&id).expect("only a job that was found is changed"));
        self.link(id);
        result
    }

    /// Adds a job to the indexes.
    pub(super) fn link(&mut self, id: JobId) {
        let Some(stored) = self.jobs.get(&id) else { return };
        if let Some(lease) = &stored.lease {
            self.deadlines.insert((lease.deadline, id));
        }
        if let Some(queue) = self.queues.get_mut(&stored.job.spec.queue).filter(|q| q.id == stored.queue) {
            queue.link(stored);
        }
    }

    fn unlink(&mut self, id: JobId) {
        let Some(stored) = self.jobs.get(&id) else { return };
        if let Some(lease) = &stored.lease {
            self.deadlines.remove(&(lease.deadline, id));
        }
        if let Some(queue) = self.queues.get_mut(&stored.job.spec.queue).filter(|q| q.id == stored.queue) {
            queue.unlink(stored);
        }
    }

    /// Opens the next of a gated job's group: called when the job has joined the line or finished.
    pub(super) fn open_next(&mut self, spec: &JobSpec) {
        if let Some(group) = spec.group.as_ref().filter(|_| spec.gated) {
            self.open_line(&spec.queue, group);
        }
    }

    /// Opens waiting jobs of a group while it has room.
    pub(super) fn open_line(&mut self, queue: &QueueName, group: &Group) {
        while let Some(id) = self.queues.get(queue).and_then(|queue| queue.next_to_open(group)) {
            self.change(id, |stored| stored.open = true);
        }
    }

    /// Finds what the indexes and the jobs disagree on, by building the indexes anew. The model test runs it after every
    /// step, because a reference that is wrong makes every backend wrong.
    #[cfg(feature = "conformance")]
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut rebuilt = self.clone();
        rebuilt.keys.clear();
        rebuilt.deadlines.clear();
        rebuilt.queues.values_mut().for_each(Queue::clear_links);
        for stored in self.jobs.values() {
            rebuilt.insert(stored.clone());
        }
        let same = rebuilt.keys == self.keys
            && rebuilt.deadlines == self.deadlines
            && rebuilt.queues.values().zip(self.queues.values()).all(|(a, b)| a.same_links(b));
        if !same {
            return Err("the indexes are not what the jobs say".into());
        }
        self.queues.values().try_for_each(Queue::audit)
    }
}
