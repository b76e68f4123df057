//! Pruning: finished jobs whose retention is over are dropped, or stripped to what their key needs. A purge does the same to
//! one dead letter, without waiting.

use std::ops::Bound;

use semel_core::ids::JobId;
use semel_core::lifecycle::State;
use semel_core::queue::QueueConfig;
use semel_core::retention::{self, Fate};
use semel_core::time::Timestamp;

use super::tables::{Stored, Tables};
use crate::command::{Answer, Reply};

impl Tables {
    /// Looks at the next `limit` finished jobs, in the order of their ids. After the last one the next call starts over.
    pub(super) fn prune(&mut self, limit: u32, now: Timestamp) -> Reply {
        let from = self.pruned_to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut finished = self
            .jobs
            .range((from, Bound::Unbounded))
            .filter(|(_, stored)| stored.state().is_finished())
            .map(|(id, _)| *id);
        let looked_at: Vec<_> = finished.by_ref().take(limit as usize).collect();
        let more = finished.next().is_some();
        if let Some(last) = looked_at.last() {
            self.pruned_to = Some(*last);
        }
        if !more {
            self.pruned_to = None;
        }
        let (mut dropped, mut stripped) = (0, 0);
        for id in looked_at {
            let fate = self.fate(id, now);
            self.carry_out(id, fate);
            stripped += u32::from(matches!(fate, Fate::Strip { .. }));
            dropped += u32::from(fate == Fate::Drop);
        }
        Reply::Pruned { dropped, stripped, more }
    }

    /// Takes a dead letter out of the dead letters.
    pub(super) fn purge(&mut self, id: JobId, now: Timestamp) -> Answer {
        let stored = self.found(id)?;
        let key_until = self.queue_of(stored).and_then(|queue| key_until(stored, &queue.rules.config));
        let fate = retention::purge(&stored.shown(), key_until, now)?;
        self.carry_out(id, fate);
        Ok(Reply::Done)
    }

    fn carry_out(&mut self, id: JobId, fate: Fate) {
        match fate {
            Fate::Keep { .. } => {}
            Fate::Strip { .. } => self.change(id, |stored| *stored = stored.stripped()),
            Fate::Drop => self.remove(id),
        }
    }

    fn fate(&self, id: JobId, now: Timestamp) -> Fate {
        let stored = self.jobs.get(&id).expect("pruning looks only at jobs that are there");
        fate(stored, self.queue_of(stored).map(|queue| &queue.rules.config), now)
    }
}

/// What is to become of a finished job, by the settings of its queue; `None` if that was deleted.
pub fn fate(stored: &Stored, config: Option<&QueueConfig>, now: Timestamp) -> Fate {
    // Nobody can ask for a job or a key of a queue that is gone, so nothing holds them.
    let Some(config) = config else { return Fate::Drop };
    let Stored { job, .. } = stored;
    let Some(finished_at) = job.progress.finished_at else { return Fate::Keep { until: now } };
    let dead = job.progress.state == State::Dead;
    let stripped = job.spec.payload.is_none();
    retention::fate(finished_at, dead, &config.retention, key_until(stored, config), stripped, now)
}

/// When a finished job's key stops holding; `None` if it holds nothing.
fn key_until(Stored { job, .. }: &Stored, config: &QueueConfig) -> Option<Timestamp> {
    job.key_expires_at(config).filter(|_| job.progress.released.is_none())
}
