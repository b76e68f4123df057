//! Reading: jobs, pages of jobs, keys, queues, counts. No read changes anything.

use std::collections::BTreeMap;
use std::ops::Bound;

use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::records::QueueRecord;
use semel_core::time::Timestamp;

use super::queue::Queue;
use super::tables::{Stored, Tables};
use crate::health::Health;
use crate::query::{Cursor, JobQuery, KeyRecord, PAGE_MAX, Page};
use crate::stats::{QueueStats, Stats};

impl Tables {
    pub(crate) fn job(&self, id: JobId) -> Option<Job> {
        self.jobs.get(&id).map(Stored::shown)
    }

    /// One page, newest first. It names a next page only when that has something on it.
    pub(crate) fn page(&self, query: &JobQuery) -> Page<Job> {
        let limit = query.limit.clamp(1, PAGE_MAX) as usize;
        let below = query.cursor.map_or(Bound::Unbounded, |cursor| Bound::Excluded(cursor.below));
        let jobs = self.jobs.range((Bound::Unbounded, below)).rev().map(|(_, stored)| stored);
        let mut found = jobs.filter(|stored| self.matches(query, stored)).map(Stored::shown);
        let items: Vec<_> = found.by_ref().take(limit).collect();
        let more = found.next().is_some();
        let next = items.last().filter(|_| more).map(|last| Cursor { below: last.id });
        Page { items, next }
    }

    /// Whether a job passes the filters. A queue's name means the queue that has it now, not one that had it before.
    fn matches(&self, query: &JobQuery, stored: &Stored) -> bool {
        let in_queue = query.queue.is_none() || self.queue_of(stored).is_some();
        in_queue
            && query.state.is_none_or(|state| state == stored.state())
            && query.matches_spec(&stored.job.spec)
            && query.matches_duplicates(&stored.job)
    }

    pub(crate) fn key_record(&self, queue: &QueueName, key: &Key, now: Timestamp) -> Option<KeyRecord> {
        let queue = self.queues.get(queue)?;
        let stored = self.newest(queue.id, key)?;
        let config = &queue.rules.config;
        Some(KeyRecord {
            holds: stored.job.holds_key(config, now),
            expires_at: stored.job.key_expires_at(config),
            job: stored.shown(),
            suppressed: stored.suppressed.iter().cloned().collect(),
        })
    }

    pub(crate) fn queue_record(&self, name: &QueueName) -> Option<QueueRecord> {
        self.queues.get(name).map(|queue| record(name, queue))
    }

    pub(crate) fn queue_records(&self) -> Vec<QueueRecord> {
        self.queues.iter().map(|(name, queue)| record(name, queue)).collect()
    }

    /// Counts what is there. Jobs of a deleted queue belong to no queue any more, so no queue counts them.
    pub(crate) fn stats(&self, now: Timestamp) -> Stats {
        let empty = |(name, queue): (&QueueName, &Queue)| {
            let oldest_ready = queue.first_due().filter(|due| *due <= now);
            (name.clone(), QueueStats { oldest_ready, ..QueueStats::empty(name.clone()) })
        };
        let mut queues: BTreeMap<_, _> = self.queues.iter().map(empty).collect();
        for stored in self.jobs.values().filter(|stored| self.queue_of(stored).is_some()) {
            if let Some(stats) = queues.get_mut(&stored.job.spec.queue) {
                *count(stats, stored.state()) += 1;
            }
        }
        Stats { queues: queues.into_values().collect() }
    }

    /// There is no disk under it, and the map of keys knows its size.
    pub(crate) fn health(&self) -> Health {
        Health { keys: self.keys.len() as u64, ..Health::default() }
    }
}

fn count(stats: &mut QueueStats, state: State) -> &mut u64 {
    match state {
        State::Pending => &mut stats.pending,
        State::Processing => &mut stats.processing,
        State::AwaitingAck => &mut stats.awaiting_ack,
        State::Completed => &mut stats.completed,
        State::Dead => &mut stats.dead,
        State::Cancelled => &mut stats.cancelled,
    }
}

fn record(name: &QueueName, queue: &Queue) -> QueueRecord {
    QueueRecord {
        name: name.clone(),
        config: queue.rules.config.clone(),
        gate: queue.gate.clone(),
        secrets: queue.secrets.clone(),
        created_at: queue.created_at,
    }
}
