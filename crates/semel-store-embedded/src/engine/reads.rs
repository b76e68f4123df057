//! What the engine answers from its own connection and memory: one job, one key, counts, and what a listing needs to know.

use std::collections::HashMap;

use semel_core::ids::JobId;
use semel_core::job::{Job, Progress};
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::{Health, JobQuery, KeyRecord, QueueStats, Stats, StoreError};

use super::Engine;
use crate::fault::{Fault, No};
use crate::inspect::size;
use crate::reads::with_lease;
use crate::schema::{DB_FILE, LOG_FILE};

/// What memory knows that a listing from disk does not.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Jobs that workers have, as callers see them.
    pub(crate) leased: HashMap<JobId, Progress>,
    /// The number of the queue asked for; `None` inside if there is no such queue.
    pub(crate) queue: Option<Option<u32>>,
    /// The only jobs that can have the key asked for, newest first.
    pub(crate) candidates: Option<Vec<JobId>>,
    /// Suppressed publishes that are not on disk yet, if the query asks for duplicates.
    pub(crate) duplicates: HashMap<JobId, u32>,
}

impl Engine<'_> {
    pub(crate) fn read_job(&mut self, id: JobId) -> Result<Option<Job>, StoreError> {
        let loaded = self.load_job(id).map_err(|fault| fault.rolled_back())?;
        Ok(loaded.map(|loaded| loaded.job))
    }

    pub(crate) fn read_key(&mut self, queue: &QueueName, key: &Key) -> Result<Option<KeyRecord>, StoreError> {
        self.tick();
        let Some(no) = self.queues.number(queue) else { return Ok(None) };
        let hash = self.hasher.hash(no, key.as_str());
        let newest = self.newest_with_key(no, key, hash).map_err(|no| match no {
            No::Refused(refusal) => StoreError::Corrupt(refusal.to_string()),
            No::Fault(fault) => fault.rolled_back(),
        })?;
        let Some(job) = newest else { return Ok(None) };
        let suppressed = self.trace_of(job.id).map_err(|fault| fault.rolled_back())?.last;
        let config = &self.queue(no).map_err(|fault| fault.rolled_back())?.rules.config;
        let (holds, expires_at) = (job.holds_key(config, self.now), job.key_expires_at(config));
        Ok(Some(KeyRecord { job, holds, expires_at, suppressed }))
    }

    pub(crate) fn read_stats(&mut self) -> Result<Stats, Fault> {
        self.tick();
        let numbers: Vec<u32> = self.queues.current().iter().map(|q| q.no).collect();
        let queues = numbers.into_iter().map(|no| self.queue_stats(no)).collect::<Result<_, _>>()?;
        Ok(Stats { queues })
    }

    /// How the store is: what memory knows, and three questions to the file system.
    pub(crate) fn read_health(&self) -> Health {
        let dir = self.space.dir();
        let log = size(&dir.join(LOG_FILE));
        Health {
            keys: self.keys.entries(),
            bytes: Some(size(&dir.join(DB_FILE)) + log + self.keys.file_bytes()),
            log_bytes: Some(log),
            free_bytes: self.space.free(),
            reserve_bytes: Some(self.space.reserve()),
            full: self.space.is_low(),
        }
    }

    fn queue_stats(&mut self, no: u32) -> Result<QueueStats, Fault> {
        let oldest_ready: Option<Timestamp> = self.earliest_due(no)?.filter(|&due| due <= self.now);
        let queue = self.queue(no)?;
        let (in_flight, awaiting_ack) = (u64::from(queue.in_flight), u64::from(queue.awaiting_ack));
        Ok(QueueStats {
            queue: queue.name.clone(),
            pending: queue.counts.unfinished - in_flight,
            processing: in_flight - awaiting_ack,
            awaiting_ack,
            completed: queue.counts.completed,
            dead: queue.counts.dead,
            cancelled: queue.counts.cancelled,
            oldest_ready,
        })
    }

    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.leases.next_expiry()
    }

    /// Adds the suppressed publishes that are not on disk yet. Where they decide what is listed they are counted anew: a
    /// trace that went to disk after the overlay was made was counted twice by the listing, which lets through too much.
    pub(crate) fn add_duplicates(&mut self, query: &JobQuery, jobs: &mut Vec<Job>) -> Result<(), Fault> {
        if query.duplicated.is_none() {
            for job in jobs {
                job.duplicates += self.traces.pending.get(&job.id).map_or(0, |trace| trace.count);
            }
            return Ok(());
        }
        for job in jobs.iter_mut() {
            job.duplicates = self.trace_of(job.id)?.count;
        }
        jobs.retain(|job| query.matches_duplicates(job));
        Ok(())
    }

    pub(crate) fn overlay(&self, query: &JobQuery) -> Result<Overlay, Fault> {
        let queue = query.queue.as_ref().map(|name| self.queues.number(name));
        let mut candidates = None;
        if let (Some(Some(no)), Some(key)) = (queue, &query.key) {
            let mut raw = Vec::new();
            self.keys.candidates(self.hasher.hash(no, key.as_str()), &mut raw)?;
            candidates = Some(raw.into_iter().filter_map(JobId::from_raw).collect());
        }
        let leased =
            self.leases.iter().map(|h| (h.stub.id, with_lease(h.progress.clone(), &h.lease))).collect();
        let pending = self.traces.pending.iter().filter(|_| query.duplicated.is_some());
        let duplicates = pending.map(|(id, trace)| (*id, trace.count)).collect();
        Ok(Overlay { leased, queue, candidates, duplicates })
    }
}
