//! The ends of deliveries: settled by a worker, or run out and rescued.

use std::sync::Arc;

use semel_core::gate::Signal;
use semel_core::ids::JobId;
use semel_core::job::Progress;
use semel_core::lifecycle::State;
use semel_core::outcome::Outcome;
use semel_core::settle::{self, Fence, Policy, Report, Settle, Verb};
use semel_core::time::{Millis, Timestamp};

use super::tables::{Stored, Tables};
use crate::command::{Answer, Reply, Rescued};

impl Tables {
    pub(super) fn settle(&mut self, settle: &Settle, now: Timestamp) -> Answer {
        let id = settle.id();
        let stored = self.found(id)?;
        let (progress, lease) = (&stored.job.progress, stored.lease.as_ref());
        let verb = settle::verb(settle.outcome());
        let fence = settle::fence(id, progress.state, lease, progress.settled, settle.token(), verb)?;
        let took = match (fence, verb) {
            (Fence::Repeated, _) => None,
            (Fence::Current(_), Verb::Receive) => {
                self.receive(id, now);
                None
            }
            (Fence::Current(_), _) => Some(self.end(id, settle.outcome(), settle.report(), now)),
        };
        let Rescued { queue, state, due, .. } = standing(self.found(id)?);
        Ok(Reply::Settled { queue, state, due, took, repeated: fence == Fence::Repeated })
    }

    /// Ends leases that ran out, in the order they did.
    pub(super) fn rescue(&mut self, limit: u32, now: Timestamp) -> Reply {
        let ids: Vec<_> = self.expired(now).take(limit as usize).collect();
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            self.end(id, &Outcome::Expired, &Report::default(), now);
            jobs.extend(self.jobs.get(&id).map(standing));
        }
        let more = self.expired(now).next().is_some();
        Reply::Rescued { jobs, more }
    }

    /// The worker has the job and will settle it later. The lease goes on, with the time that an ack may take.
    fn receive(&mut self, id: JobId, now: Timestamp) {
        let stored = self.jobs.get(&id).expect("a lease is held on a job that is there");
        let queue = self.queues.get_mut(&stored.job.spec.queue);
        let queue = queue.expect("a queue with unfinished jobs cannot be deleted");
        let deadline = now.plus(queue.rules.ack_time());
        // For the gate this is the end: the workers take jobs.
        queue.gate.settled(&queue.rules.config, id, Signal::Success, now);
        self.change(id, |stored| {
            if let Some(lease) = &mut stored.lease {
                lease.received = true;
                lease.deadline = deadline;
            }
        });
    }

    /// Applies the outcome of the delivery that is out, and returns how long that took.
    fn end(&mut self, id: JobId, outcome: &Outcome, report: &Report, now: Timestamp) -> Millis {
        let stored = self.jobs.get(&id).expect("a lease is held on a job that is there");
        let queue = self.queue_of(stored).expect("a queue with unfinished jobs cannot be deleted");
        let rules = Arc::clone(&queue.rules);
        let spec = &stored.job.spec;
        let policy = Policy {
            config: &rules.config,
            max_attempts: spec.max_attempts(&rules.config),
            retry: spec.overrides.retry.as_ref().unwrap_or(&rules.config.retry),
        };
        let lease = stored.lease.expect("only a delivery that is out is ended");
        let step = settle::step(id, stored.job.progress.clone(), policy, &lease, outcome, report, now)
            .expect("a leased job may end in every way");
        self.conclude(id, step.progress, Some(step.signal), now);
        step.took
    }

    /// Takes the lease off a job, if there is one, tells the gate, and lets the next of its group go if the job finished.
    pub(super) fn conclude(&mut self, id: JobId, progress: Progress, signal: Option<Signal>, now: Timestamp) {
        let finished = progress.state.is_finished();
        let spec = self.change(id, |stored| {
            stored.job.progress = progress;
            stored.lease = None;
            Arc::clone(&stored.job.spec)
        });
        if let Some((queue, signal)) = self.queues.get_mut(&spec.queue).zip(signal) {
            queue.gate.settled(&queue.rules.config, id, signal, now);
        }
        if finished {
            self.open_next(&spec);
        }
    }
}

/// Where a job stands after its delivery has ended.
fn standing(stored: &Stored) -> Rescued {
    let state = stored.state();
    let due = (state == State::Pending).then_some(stored.job.progress.due);
    Rescued { id: stored.job.id, queue: stored.job.spec.queue.clone(), state, due }
}
