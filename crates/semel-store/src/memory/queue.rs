//! Queues: their rules and gate, the jobs that may go out of them, and the lines of their groups.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::breaker::Breaker;
use semel_core::gate::Gate;
use semel_core::group;
use semel_core::ids::JobId;
use semel_core::job::Priority;
use semel_core::name::{Group, QueueName};
use semel_core::queue::{QueueConfig, Rules};
use semel_core::records::{WebhookSecret, check_secrets};
use semel_core::refusal::Refusal;
use semel_core::time::Timestamp;

use super::tables::{Stored, Tables};
use crate::command::{Answer, Reply};

/// A queue from its making to its deletion. One that is made again under the same name is another queue: the jobs and
/// keys of the first are not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(pub u64);

/// One queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    pub(super) rules: Arc<Rules>,
    pub(super) gate: Gate,
    pub(super) secrets: Vec<WebhookSecret>,
    pub(super) created_at: Timestamp,
    /// Deliveries that are out.
    pub(super) in_flight: u32,
    /// Eligible jobs in ready order: by priority, then by due time and id.
    eligible: BTreeMap<Reverse<Priority>, BTreeSet<(Timestamp, JobId)>>,
    lines: BTreeMap<Group, Line>,
}

/// The unfinished jobs of a group that gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Line {
    /// How many are open.
    open: u32,
    /// The others, in the order in which they joined.
    waiting: BTreeSet<(Timestamp, JobId)>,
}

impl Queue {
    pub(super) fn new(id: QueueId, rules: Arc<Rules>, created_at: Timestamp) -> Self {
        Self {
            id,
            rules,
            gate: Gate::default(),
            secrets: Vec::new(),
            created_at,
            in_flight: 0,
            eligible: BTreeMap::new(),
            lines: BTreeMap::new(),
        }
    }

    /// Up to `max` jobs that are ready, in ready order.
    pub(super) fn ready(&self, max: u32, now: Timestamp) -> Vec<JobId> {
        let due = |jobs| BTreeSet::iter(jobs).take_while(|(due, _)| *due <= now);
        self.eligible.values().flat_map(due).map(|(_, id)| *id).take(max as usize).collect()
    }

    /// Says how many jobs of a group are open, where not all of them are there to be counted.
    pub(super) fn set_open(&mut self, group: Group, open: u32) {
        self.lines.entry(group).or_default().open = open;
    }

    /// When the first eligible job is due, or was.
    pub(super) fn first_due(&self) -> Option<Timestamp> {
        self.eligible.values().filter_map(|jobs| jobs.first()).map(|(due, _)| *due).min()
    }

    /// The job of a group that opens next, if the group has room for it.
    pub(super) fn next_to_open(&self, group: &Group) -> Option<JobId> {
        // Without a limit there is room for all: those who wait joined when there was one.
        let limit = self.rules.config.group_concurrency.unwrap_or(u32::MAX);
        let line = self.lines.get(group)?;
        let (_, first) = line.waiting.first()?;
        group::opens(line.open, limit).then_some(*first)
    }

    /// Adds a job to the indexes.
    pub(super) fn link(&mut self, stored: &Stored) {
        if stored.lease.is_some() {
            self.in_flight += 1;
        }
        if stored.is_eligible() {
            self.eligible.entry(rank(stored)).or_default().insert(due(stored));
        }
        if let Some(group) = stored.line() {
            let line = self.lines.entry(group.clone()).or_default();
            if stored.open {
                line.open += 1;
            } else {
                line.waiting.insert(stored.place());
            }
        }
    }

    /// Takes a job out of the indexes.
    pub(super) fn unlink(&mut self, stored: &Stored) {
        if stored.lease.is_some() {
            self.in_flight -= 1;
        }
        if let Some(jobs) = self.eligible.get_mut(&rank(stored)).filter(|_| stored.is_eligible()) {
            jobs.remove(&due(stored));
            if jobs.is_empty() {
                self.eligible.remove(&rank(stored));
            }
        }
        if let Some((group, line)) = stored.line().and_then(|group| Some((group, self.lines.get_mut(group)?)))
        {
            if stored.open {
                line.open -= 1;
            } else {
                line.waiting.remove(&stored.place());
            }
            if *line == Line::default() {
                self.lines.remove(group);
            }
        }
    }
}

#[cfg(feature = "conformance")]
impl Queue {
    /// Forgets the indexes, to build them anew.
    pub(super) fn clear_links(&mut self) {
        self.in_flight = 0;
        self.eligible.clear();
        self.lines.clear();
    }

    /// Whether the indexes are the same.
    pub(super) fn same_links(&self, other: &Self) -> bool {
        self.in_flight == other.in_flight && self.eligible == other.eligible && self.lines == other.lines
    }

    /// No job waits in a line that has room.
    pub(super) fn audit(&self) -> Result<(), String> {
        match self.lines.keys().find(|group| self.next_to_open(group).is_some()) {
            Some(group) => Err(format!("a job of group {group} waits though there is room")),
            None => Ok(()),
        }
    }
}

fn rank(stored: &Stored) -> Reverse<Priority> {
    Reverse(stored.job.spec.priority)
}

fn due(stored: &Stored) -> (Timestamp, JobId) {
    (stored.job.progress.due, stored.job.id)
}

impl Tables {
    /// Makes a queue, or changes the rules of one. Its gate stays as it is, because a change of settings is no resume; only
    /// a breaker that is not wanted any more is forgotten. A group limit that was raised or lifted opens what there is now
    /// room for, at once.
    pub(super) fn put_queue(&mut self, name: &QueueName, config: QueueConfig, now: Timestamp) -> Answer {
        let rules = Arc::new(Rules::new(config)?);
        let Some(queue) = self.queues.get_mut(name) else {
            self.queues_made += 1;
            self.queues.insert(name.clone(), Queue::new(QueueId(self.queues_made), rules, now));
            return Ok(Reply::Done);
        };
        if rules.config.breaker.is_none() {
            queue.gate.breaker = Breaker::default();
        }
        queue.rules = rules;
        let groups: Vec<_> = queue.lines.keys().cloned().collect();
        for group in groups {
            self.open_line(name, &group);
        }
        Ok(Reply::Done)
    }

    /// Takes a queue away. Its finished jobs stay until they are pruned, which drops them at once.
    pub(super) fn delete_queue(&mut self, name: &QueueName) -> Answer {
        let id = self.found_queue(name)?.id;
        let unfinished = |stored: &&Stored| stored.queue == id && !stored.state().is_finished();
        let unfinished = self.jobs.values().filter(unfinished).count() as u64;
        if unfinished > 0 {
            return Err(Refusal::QueueNotEmpty { queue: name.clone(), unfinished });
        }
        self.queues.remove(name);
        Ok(Reply::Done)
    }

    /// Replaces what signs the requests to a webhook.
    pub(super) fn put_secrets(&mut self, name: &QueueName, secrets: Vec<WebhookSecret>) -> Answer {
        check_secrets(&secrets)?;
        let queue = self.queues.get_mut(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        queue.secrets = secrets;
        Ok(Reply::Done)
    }

    /// Stops or restarts deliveries.
    pub(super) fn pause(&mut self, name: &QueueName, paused: bool) -> Answer {
        let queue = self.queues.get_mut(name).ok_or_else(|| Refusal::QueueNotFound(name.clone()))?;
        queue.gate.paused = paused;
        Ok(Reply::Done)
    }
}
