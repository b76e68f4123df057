//! What a batch is about: the queues, jobs, keys and records that its commands name.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::ids::JobId;
use semel_core::key::{Fingerprint, Key};
use semel_core::name::{Group, QueueName};
use semel_store::Command;

/// Most leases that one command ends, whatever it was told: they are loaded at once.
const RESCUE_MAX: u32 = 1000;

/// What some commands name.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// Queues.
    pub(super) queues: BTreeSet<QueueName>,
    /// Those of them that are about to be changed themselves.
    pub(super) changed: BTreeSet<QueueName>,
    /// Jobs, and how many commands name each.
    pub(super) jobs: BTreeMap<JobId, u32>,
    /// Keys, with the payload that is published under each.
    pub(super) keys: BTreeMap<(QueueName, Key), Shown>,
    /// Groups that a published job may join.
    pub(super) groups: BTreeSet<(QueueName, Group)>,
    /// Schedules, API keys and replays.
    pub(super) records: BTreeSet<(Kind, String)>,
    /// How many leases that ran out are to be ended.
    pub(super) rescues: u32,
    /// Whether a job may go entirely, so that an older one may become the newest of its key.
    pub(super) purges: bool,
}

/// Which payload is published under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// None: the key is only asked for.
    Nothing,
    /// The one with this fingerprint. Where the first job has the same its payload need not be looked at.
    One(Fingerprint),
    /// Several.
    Several,
}

/// What kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Schedule,
    ApiKey,
    Replay,
}

impl Kind {
    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::ApiKey => "api_key",
            Self::Replay => "replay",
        }
    }

    /// The kind of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Schedule, Self::ApiKey, Self::Replay].into_iter().find(|kind| kind.name() == name)
    }
}

impl Wants {
    /// What these commands name.
    pub(super) fn of(commands: &[Command]) -> Self {
        let mut wants = Self::default();
        commands.iter().for_each(|command| wants.add(command));
        wants
    }

    fn add(&mut self, command: &Command) {
        match command {
            Command::Publish(publish) => {
                let draft = publish.draft();
                self.queue(&draft.queue);
                if let Some(key) = &draft.key {
                    self.key(&draft.queue, key, Shown::One(publish.fingerprint()));
                }
                if let Some(group) = &draft.group {
                    self.groups.insert((draft.queue.clone(), group.clone()));
                }
            }
            Command::Settle(settle) => self.job(settle.id()),
            Command::Extend(extend) => self.job(extend.id),
            Command::Cancel(id) | Command::Bury { id, .. } | Command::Replay(id) => self.job(*id),
            Command::Purge(id) => {
                self.job(*id);
                self.purges = true;
            }
            Command::ReleaseKey { queue, key, .. } => {
                self.queue(queue);
                self.key(queue, key, Shown::Nothing);
            }
            Command::PutQueue { name, .. } => self.change(name),
            Command::DeleteQueue(name) => self.change(name),
            Command::PutSecrets { queue, .. } | Command::Pause { queue, .. } => self.change(queue),
            Command::PutSchedule(record) => {
                self.queue(&record.queue);
                self.record(Kind::Schedule, &record.name);
            }
            Command::DeleteSchedule(name) | Command::AdvanceSchedule { name, .. } => {
                self.record(Kind::Schedule, name);
            }
            Command::PutApiKey(record) => self.record(Kind::ApiKey, &record.id),
            Command::DeleteApiKey(id) | Command::TouchApiKey { id, .. } => self.record(Kind::ApiKey, id),
            Command::PutReplay(record) => {
                self.queue(&record.queue);
                self.record(Kind::Replay, &record.id);
            }
            Command::DeleteReplay(id) => self.record(Kind::Replay, id),
            Command::Rescue { limit } => self.rescues = self.rescues.saturating_add((*limit).min(RESCUE_MAX)),
            Command::Prune { .. } => {}
        }
    }

    fn queue(&mut self, name: &QueueName) {
        if !self.queues.contains(name) {
            self.queues.insert(name.clone());
        }
    }

    fn change(&mut self, name: &QueueName) {
        self.queue(name);
        self.changed.insert(name.clone());
    }

    fn job(&mut self, id: JobId) {
        *self.jobs.entry(id).or_default() += 1;
    }

    fn key(&mut self, queue: &QueueName, key: &Key, shown: Shown) {
        let all = self.keys.entry((queue.clone(), key.clone())).or_insert(shown);
        *all = all.and(shown);
    }

    fn record(&mut self, kind: Kind, name: &str) {
        self.records.insert((kind, name.to_owned()));
    }
}

impl Shown {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (one, other) if one == other => one,
            _ => Self::Several,
        }
    }
}

/// A command as it is carried out: no more is rescued at a time than is loaded.
pub(super) fn bounded(command: &Command) -> Command {
    match command {
        Command::Rescue { limit } => Command::Rescue { limit: (*limit).min(RESCUE_MAX) },
        other => other.clone(),
    }
}

/// Cuts a batch into parts that are loaded, applied and saved one after the other. What concerns more jobs than it names (the
/// settings of a queue, its deletion, pruning) is a part of its own.
pub(super) fn parts(batch: &[Command]) -> impl Iterator<Item = &[Command]> {
    batch.chunk_by(|a, b| !is_wide(a) && !is_wide(b))
}

/// Whether a command concerns more jobs than it names.
fn is_wide(command: &Command) -> bool {
    matches!(command, Command::PutQueue { .. } | Command::DeleteQueue(_) | Command::Prune { .. })
}
