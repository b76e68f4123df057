//! Saving: what changed in a working set becomes rows to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::Lease;
use semel_core::queue::Rules;
use semel_core::retention::Fate;
use semel_core::time::Timestamp;
use semel_store::working::{Changes, JobChange, KeyChange, QueueChange, QueueId, Stored, fate};
use semel_store::{Answer, Reply};
use serde::Serialize;

use super::Setback;
use super::load::Loaded;
use super::wants::Kind;
use super::work::Work;
use super::writes::Writes;
use crate::catalog::queue_number;
use crate::row::{config_text, gate_text, is_free, secrets_text, sql_id};

/// What has to be written after these answers. A queue that changed needs to be locked for this transaction alone.
pub(super) fn save(work: &Work<'_>, loaded: Loaded, answers: &[Answer]) -> Result<Writes, Setback> {
    let changes = loaded.set.changes();
    let touched = changes.queues.iter().filter_map(|change| change.before.as_ref());
    let touched = touched.map(|queue| queue_number(queue.id));
    let alone: BTreeSet<_> = touched.filter(|queue| !work.has_alone(*queue)).collect();
    if !alone.is_empty() {
        return Err(Setback::Again { alone });
    }
    Ok(writes(&changes, &loaded.rules, answers, work.now()))
}

/// The rows of changes; `answers` tells which jobs were made.
pub(crate) fn writes(
    changes: &Changes,
    rules: &BTreeMap<i32, Arc<Rules>>,
    answers: &[Answer],
    now: Timestamp,
) -> Writes {
    let mut writes = Writes::default();
    let mut save = Save { writes: &mut writes, rules, now };
    let keys = changes.keys.iter().map(|change| (change.queue, &change.key)).collect();
    changes.jobs.iter().for_each(|change| save.job(change, &keys));
    changes.keys.iter().for_each(|change| save.key(change));
    changes.queues.iter().for_each(|change| save.queue(change));
    save.records(Kind::Schedule, &changes.schedules);
    save.records(Kind::ApiKey, &changes.api_keys);
    save.records(Kind::Replay, &changes.replays);
    for (queue, tally) in changes.tallies() {
        writes.tallies.push(queue_number(queue), tally);
    }
    writes.short_lived.extend(short_lived(answers, changes));
    let rows = &writes;
    let others = !(rows.short_lived.is_empty() && rows.queues.id.is_empty() && rows.records.kind.is_empty());
    writes.lasting |= others;
    writes
}

/// Jobs that were made and dropped within the batch: nothing is left of them, but their ids must not come back.
fn short_lived(answers: &[Answer], changes: &Changes) -> Vec<i64> {
    let made = |answer: &Answer| match answer {
        Ok(Reply::Published(published)) if !published.deduplicated => Some(published.id),
        _ => None,
    };
    let there: BTreeSet<JobId> =
        changes.jobs.iter().filter_map(|job| Some(job.after.as_ref()?.job.id)).collect();
    answers.iter().filter_map(made).filter(|id| !there.contains(id)).map(sql_id).collect()
}

/// The table in which a job stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Live,
    Done,
}

fn table(stored: &Stored) -> Table {
    if stored.job.progress.state.is_finished() { Table::Done } else { Table::Live }
}

struct Save<'a> {
    writes: &'a mut Writes,
    rules: &'a BTreeMap<i32, Arc<Rules>>,
    now: Timestamp,
}

impl Save<'_> {
    fn job(&mut self, change: &JobChange, keys: &BTreeSet<(QueueId, &Key)>) {
        let spared = change
            .before
            .as_ref()
            .zip(change.after.as_ref())
            .is_some_and(|(old, new)| only_informs(old, new));
        self.writes.lasting |= !spared;
        match (&change.before, &change.after) {
            (None, Some(new)) => self.made(new),
            (Some(old), Some(new)) => self.changed(old, new),
            (Some(old), None) => self.dropped(old, keys),
            (None, None) => {}
        }
    }

    fn made(&mut self, new: &Stored) {
        self.writes.jobs.push(new.job.id, queue_number(new.queue), &new.job.spec);
        self.enter(new);
        if new.job.duplicates > 0 {
            self.trace(new);
        }
    }

    fn changed(&mut self, old: &Stored, new: &Stored) {
        let id = sql_id(new.job.id);
        let moved = table(old) != table(new);
        let stripped = old.job.spec.payload.is_some() && new.job.spec.payload.is_none();
        let same = old.job.progress == new.job.progress && old.lease == new.lease && old.open == new.open;
        match table(old) {
            Table::Live if moved => self.writes.live_gone.push(id),
            Table::Done if moved => self.writes.done_gone.push(id),
            Table::Live if !same => self.writes.push_live_changed(new),
            Table::Done if !same || stripped => {
                let look_at = self.look_at(new);
                self.writes.push_done_changed(new, look_at);
            }
            _ => {}
        }
        if moved {
            self.enter(new);
        }
        if stripped {
            self.writes.stripped.push(id, new.job.spec.fingerprint);
        }
        if old.job.duplicates != new.job.duplicates {
            self.trace(new);
        }
    }

    /// A job is only ever dropped when it has finished, but that may have been in the same batch.
    fn dropped(&mut self, old: &Stored, keys: &BTreeSet<(QueueId, &Key)>) {
        let id = sql_id(old.job.id);
        match table(old) {
            Table::Live => self.writes.live_gone.push(id),
            Table::Done => self.writes.done_gone.push(id),
        }
        self.writes.dropped.push(id);
        // A key that was loaded has noticed that itself.
        if let Some(key) = old.job.spec.key.as_ref().filter(|key| !keys.contains(&(old.queue, *key))) {
            self.writes.left_keys.push(queue_number(old.queue), key, id);
        }
    }

    /// Puts a job into the table where it stands now.
    fn enter(&mut self, new: &Stored) {
        match table(new) {
            Table::Live => self.writes.push_live_new(new),
            Table::Done => {
                let look_at = self.look_at(new);
                self.writes.push_done_new(new, look_at);
            }
        }
    }

    fn trace(&mut self, new: &Stored) {
        self.writes.traces.push(new.job.id, new.job.duplicates, &new.suppressed);
    }

    fn look_at(&self, stored: &Stored) -> Timestamp {
        let rules = self.rules.get(&queue_number(stored.queue));
        look_at(stored, rules.map(Arc::as_ref), self.now)
    }

    fn key(&mut self, KeyChange { queue, key, before, after }: &KeyChange) {
        let queue = queue_number(*queue);
        let mut added = after.difference(before).map(|id| sql_id(*id));
        if before.is_empty()
            && let Some(first) = added.next()
        {
            self.writes.new_keys.push(queue, key, first);
        }
        added.for_each(|id| self.writes.more_keys.push(queue, key, id));
        before.difference(after).for_each(|id| self.writes.left_keys.push(queue, key, sql_id(*id)));
    }

    fn queue(&mut self, QueueChange { before, after, .. }: &QueueChange) {
        let (Some(old), Some(new)) = (before, after) else { return };
        let config = &new.rules.config;
        let row = &mut self.writes.queues;
        row.id.push(queue_number(new.id));
        row.config.push((!Arc::ptr_eq(&old.rules, &new.rules)).then(|| config_text(config)));
        row.secrets.push((old.secrets != new.secrets).then(|| secrets_text(&new.secrets)));
        row.gate.push(gate_text(&new.gate));
        row.free.push(is_free(config, &new.gate));
        row.paused.push(new.gate.paused);
    }

    fn records<T: Serialize>(&mut self, kind: Kind, changed: &[(String, Option<T>)]) {
        for (name, record) in changed {
            let body = record.as_ref().map(|record| {
                serde_json::to_string(record).expect("a record is text and numbers, which always serialise")
            });
            self.writes.records.push(kind.name(), name, body);
        }
    }
}

/// Whether a power cut may undo a change: a publish that was suppressed, a lease that was extended.
fn only_informs(old: &Stored, new: &Stored) -> bool {
    let deadline = new.lease.map(|lease| lease.deadline);
    let extended = old.lease.map(|lease| Lease { deadline: deadline.unwrap_or(lease.deadline), ..lease });
    old.job.progress == new.job.progress
        && old.job.spec == new.job.spec
        && old.open == new.open
        && extended == new.lease
}

/// When to look at a finished job again: the earliest time at which its retention says something new.
pub(crate) fn look_at(stored: &Stored, rules: Option<&Rules>, now: Timestamp) -> Timestamp {
    match fate(stored, rules.map(|rules| &rules.config), now) {
        Fate::Keep { until } => until,
        Fate::Strip { .. } | Fate::Drop => now,
    }
}
