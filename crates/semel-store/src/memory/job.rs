//! What people do to single jobs and keys: cancel, bury, replay, release.

use semel_core::gate::Signal;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::refusal::Refusal;
use semel_core::settle;
use semel_core::time::Timestamp;

use super::tables::Tables;
use crate::command::{Answer, Reply};

impl Tables {
    /// Calls a job off. The lease of one that is with a worker is void, and the gate loses that delivery.
    pub(super) fn cancel(&mut self, id: JobId, now: Timestamp) -> Answer {
        let stored = self.found(id)?;
        let leased = stored.lease.is_some();
        let progress = settle::cancel(id, stored.job.progress.clone(), leased, now)?;
        self.conclude(id, progress, leased.then_some(Signal::Lost), now);
        Ok(Reply::Done)
    }

    /// Puts a job among the dead letters. The lease of one that is with a worker is void, as when it is cancelled.
    pub(super) fn bury(&mut self, id: JobId, reason: &str, now: Timestamp) -> Answer {
        let stored = self.found(id)?;
        let lease = stored.lease.as_ref();
        let progress = settle::bury(id, stored.job.progress.clone(), lease, reason, now)?;
        let signal = lease.map(|_| Signal::Lost);
        self.conclude(id, progress, signal, now);
        Ok(Reply::Done)
    }

    /// Gives a dead letter another life.
    pub(super) fn replay(&mut self, id: JobId, now: Timestamp) -> Answer {
        self.revive(id, now)?;
        Ok(Reply::Done)
    }

    /// Makes a dead letter pending again, at the end of its group's line.
    pub(super) fn revive(&mut self, id: JobId, now: Timestamp) -> Result<(), Refusal> {
        let stored = self.found(id)?;
        let spec = stored.job.spec.clone();
        let progress = settle::replay(id, &spec, stored.shown().progress, now)?;
        if self.queue_of(stored).is_none() {
            return Err(Refusal::QueueNotFound(spec.queue.clone()));
        }
        self.change(id, |stored| {
            stored.job.progress = progress;
            stored.open = !spec.gated;
        });
        self.open_next(&spec);
        Ok(())
    }

    /// Frees a key, and keeps the reason with the job that had it.
    pub(super) fn release_key(
        &mut self,
        queue: &QueueName,
        key: &Key,
        reason: String,
        now: Timestamp,
    ) -> Answer {
        let found = self.found_queue(queue)?;
        let holder =
            self.newest(found.id, key).filter(|stored| stored.job.holds_key(&found.rules.config, now));
        let id = holder.ok_or_else(|| Refusal::KeyNotFound(key.to_string()))?.job.id;
        self.change(id, |stored| stored.job.progress.released = Some(reason));
        Ok(Reply::KeyReleased(id))
    }
}
