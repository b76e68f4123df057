//! A working set: the part of a store that a batch of commands is about, with the memory store's own rules to apply them.
//!
//! A backend that keeps its rows elsewhere loads into a [`WorkingSet`] what its commands name, applies them here, and
//! writes down what [`WorkingSet::changes`] says. So it behaves as the memory store does because it *is* the memory store,
//! as long as what is loaded is all that the commands look at:
//!
//! | command | what must be loaded |
//! |---|---|
//! | any with a queue's name | the queue |
//! | publish, release of a key | the ids of all kept jobs of the key, and the newest of these jobs |
//! | any with a job's id | the job, and its queue |
//! | purge, with a publish under the same key | all jobs of the key |
//! | any that lets a gated job join or leave its line | how many are open, and as many of those who wait as there are commands |
//! | rescue | the leases that ran out first, one more than the limit and than there are other commands |
//! | schedules, API keys, replays | the record |
//!
//! Queues come first, then jobs, then lines. A change of a queue that opens whole lines, the deletion of a queue and a
//! pass of pruning are about more jobs than a batch has commands: the first is carried out for what is loaded, of the
//! second the caller makes sure that nothing is unfinished, and the third is not for a working set.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::gate::Gate;
use semel_core::ids::{IdGenerator, JobId};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::queue::Rules;
use semel_core::records::{ApiKeyRecord, ScheduleRecord, WebhookSecret};
use semel_core::replay::ReplayRecord;
use semel_core::time::Timestamp;

pub use super::prune::fate;
pub use super::queue::QueueId;
pub use super::tables::Stored;

use super::Tables;
use super::queue::Queue;
use crate::command::{Answer, Command};

/// A queue, as far as it is written down.
#[derive(Debug, Clone)]
pub struct StoredQueue {
    /// Its number. A queue that is made by a command has one that means nothing outside of the working set.
    pub id: QueueId,
    /// How it behaves.
    pub rules: Arc<Rules>,
    /// Pause, hold, breaker and rate as they stand.
    pub gate: Gate,
    /// What signs the requests to its webhook.
    pub secrets: Vec<WebhookSecret>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A part of a store, in memory.
#[derive(Debug, Clone)]
pub struct WorkingSet {
    tables: Tables,
    jobs: BTreeMap<JobId, Stored>,
    keys: BTreeMap<(QueueId, Key), BTreeSet<JobId>>,
    queues: BTreeMap<QueueName, StoredQueue>,
    records: Records,
}

#[derive(Debug, Clone, Default)]
struct Records {
    schedules: BTreeMap<String, ScheduleRecord>,
    api_keys: BTreeMap<String, ApiKeyRecord>,
    replays: BTreeMap<String, ReplayRecord>,
}

/// What a batch of commands changed.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Jobs, by id.
    pub jobs: Vec<JobChange>,
    /// Keys.
    pub keys: Vec<KeyChange>,
    /// Queues, by name.
    pub queues: Vec<QueueChange>,
    /// Schedules by name, with what is left of each.
    pub schedules: Vec<(String, Option<ScheduleRecord>)>,
    /// API keys by id, with what is left of each.
    pub api_keys: Vec<(String, Option<ApiKeyRecord>)>,
    /// Replay tasks by id, with what is left of each.
    pub replays: Vec<(String, Option<ReplayRecord>)>,
}

/// A job that was made, changed or dropped.
#[derive(Debug, Clone)]
pub struct JobChange {
    /// How it was loaded; `None` if it is new.
    pub before: Option<Stored>,
    /// How it is now; `None` if it is gone.
    pub after: Option<Stored>,
}

/// A key whose jobs are not the same any more.
#[derive(Debug, Clone)]
pub struct KeyChange {
    /// The queue.
    pub queue: QueueId,
    /// The key.
    pub key: Key,
    /// Its kept jobs as they were loaded.
    pub before: BTreeSet<JobId>,
    /// Its kept jobs now.
    pub after: BTreeSet<JobId>,
}

/// A queue that was made, changed or deleted.
#[derive(Debug, Clone)]
pub struct QueueChange {
    /// Its name.
    pub name: QueueName,
    /// How it was loaded; `None` if it is new.
    pub before: Option<StoredQueue>,
    /// How it is now; `None` if it is gone.
    pub after: Option<StoredQueue>,
}

/// By how much the counts of a queue changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Jobs that have not ended.
    pub unfinished: i64,
    /// Completed jobs.
    pub completed: i64,
    /// Dead letters.
    pub dead: i64,
    /// Cancelled jobs.
    pub cancelled: i64,
}

impl Default for WorkingSet {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkingSet {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            tables: Tables::new(0),
            jobs: BTreeMap::new(),
            keys: BTreeMap::new(),
            queues: BTreeMap::new(),
            records: Records::default(),
        }
    }

    /// Loads a queue that has not been deleted.
    pub fn load_queue(&mut self, name: QueueName, stored: StoredQueue) {
        let mut queue = Queue::new(stored.id, Arc::clone(&stored.rules), stored.created_at);
        queue.gate = stored.gate.clone();
        queue.secrets.clone_from(&stored.secrets);
        self.tables.queues.insert(name.clone(), queue);
        self.queues.insert(name, stored);
    }

    /// Loads a job. One that is loaded already stays as it is.
    pub fn load_job(&mut self, stored: Stored) {
        let id = stored.job.id;
        if self.jobs.contains_key(&id) {
            return;
        }
        self.tables.jobs.insert(id, stored.clone());
        self.tables.link(id);
        self.jobs.insert(id, stored);
    }

    /// Loads the ids of all kept jobs of a key; none of them says that the key is not known.
    pub fn load_key(&mut self, queue: QueueId, key: Key, ids: BTreeSet<JobId>) {
        let place = (queue, key);
        if !ids.is_empty() {
            self.tables.keys.insert(place.clone(), ids.clone());
        }
        self.keys.insert(place, ids);
    }

    /// Says how many jobs of a group are open, those that are loaded included.
    pub fn load_line(&mut self, queue: &QueueName, group: Group, open: u32) {
        if let Some(queue) = self.tables.queues.get_mut(queue) {
            queue.set_open(group, open);
        }
    }

    /// Loads a schedule.
    pub fn load_schedule(&mut self, record: ScheduleRecord) {
        self.tables.schedules.insert(record.name.clone(), record.clone());
        self.records.schedules.insert(record.name.clone(), record);
    }

    /// Loads an API key.
    pub fn load_api_key(&mut self, record: ApiKeyRecord) {
        self.tables.api_keys.insert(record.id.clone(), record.clone());
        self.records.api_keys.insert(record.id.clone(), record);
    }

    /// Loads a replay task.
    pub fn load_replay(&mut self, record: ReplayRecord) {
        self.tables.replays.insert(record.id.clone(), record.clone());
        self.records.replays.insert(record.id.clone(), record);
    }

    /// Applies commands, in order, to what is loaded. New jobs get their ids from `ids`.
    pub fn apply(
        &mut self,
        commands: impl IntoIterator<Item = Command>,
        ids: &mut IdGenerator,
        now: Timestamp,
    ) -> Vec<Answer> {
        self.tables.ids = ids.clone();
        let answers = commands.into_iter().map(|command| self.tables.apply(command, now)).collect();
        *ids = self.tables.ids.clone();
        answers
    }

    /// What is different from what was loaded.
    pub fn changes(self) -> Changes {
        let Self { tables, jobs, keys, queues, records } = self;
        Changes {
            jobs: changed_jobs(jobs, tables.jobs),
            keys: changed_keys(keys, tables.keys),
            queues: changed_queues(queues, tables.queues),
            schedules: changed_records(records.schedules, tables.schedules),
            api_keys: changed_records(records.api_keys, tables.api_keys),
            replays: changed_records(records.replays, tables.replays),
        }
    }
}

/// Pairs what was loaded with what is there now, and keeps the pairs that `differ`.
fn pairs<K: Ord, V, W>(
    before: BTreeMap<K, V>,
    mut after: BTreeMap<K, W>,
    differ: impl Fn(&V, &W) -> bool,
) -> Vec<(K, Option<V>, Option<W>)> {
    let mut found = Vec::new();
    for (name, old) in before {
        let new = after.remove(&name);
        if new.as_ref().is_none_or(|new| differ(&old, new)) {
            found.push((name, Some(old), new));
        }
    }
    found.extend(after.into_iter().map(|(name, new)| (name, None, Some(new))));
    found
}

fn changed_jobs(before: BTreeMap<JobId, Stored>, after: BTreeMap<JobId, Stored>) -> Vec<JobChange> {
    let mut jobs: Vec<_> = pairs(before, after, |old, new| old != new);
    jobs.sort_by_key(|(id, ..)| *id);
    jobs.into_iter().map(|(_, before, after)| JobChange { before, after }).collect()
}

fn changed_keys(
    before: BTreeMap<(QueueId, Key), BTreeSet<JobId>>,
    mut after: BTreeMap<(QueueId, Key), BTreeSet<JobId>>,
) -> Vec<KeyChange> {
    // A key under which there is no job any more is not in the tables, and stands here for itself.
    for place in before.keys() {
        after.entry(place.clone()).or_default();
    }
    let change = |((queue, key), before, after): (_, Option<_>, Option<_>)| KeyChange {
        queue,
        key,
        before: before.unwrap_or_default(),
        after: after.unwrap_or_default(),
    };
    pairs(before, after, |old, new| old != new).into_iter().map(change).collect()
}

fn changed_queues(
    before: BTreeMap<QueueName, StoredQueue>,
    after: BTreeMap<QueueName, Queue>,
) -> Vec<QueueChange> {
    let differ = |old: &StoredQueue, new: &Queue| {
        old.gate != new.gate || old.secrets != new.secrets || !Arc::ptr_eq(&old.rules, &new.rules)
    };
    let stored = |queue: Queue| StoredQueue {
        id: queue.id,
        rules: queue.rules,
        gate: queue.gate,
        secrets: queue.secrets,
        created_at: queue.created_at,
    };
    let change =
        |(name, before, after): (_, _, Option<_>)| QueueChange { name, before, after: after.map(stored) };
    pairs(before, after, differ).into_iter().map(change).collect()
}

fn changed_records<T: PartialEq>(
    before: BTreeMap<String, T>,
    after: BTreeMap<String, T>,
) -> Vec<(String, Option<T>)> {
    pairs(before, after, |old, new| old != new).into_iter().map(|(name, _, after)| (name, after)).collect()
}

impl Changes {
    /// By how much the counts of each queue changed; queues whose counts did not are left out.
    pub fn tallies(&self) -> BTreeMap<QueueId, Tally> {
        let mut tallies: BTreeMap<_, Tally> = BTreeMap::new();
        for JobChange { before, after } in &self.jobs {
            for (stored, by) in before.iter().map(|old| (old, -1)).chain(after.iter().map(|new| (new, 1))) {
                tallies.entry(stored.queue).or_default().add(stored.job.progress.state, by);
            }
        }
        tallies.retain(|_, tally| *tally != Tally::default());
        tallies
    }
}

impl Tally {
    fn add(&mut self, state: State, by: i64) {
        let count = match state {
            State::Pending | State::Processing | State::AwaitingAck => &mut self.unfinished,
            State::Completed => &mut self.completed,
            State::Dead => &mut self.dead,
            State::Cancelled => &mut self.cancelled,
        };
        *count += by;
    }
}
