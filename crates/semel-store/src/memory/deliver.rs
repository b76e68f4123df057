//! Leases: jobs go out to workers, and workers keep them longer.

use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::lease::{Delivery, Extend, Lease, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::queue::Rules;
use semel_core::refusal::Refusal;
use semel_core::time::{Millis, Timestamp};

use super::tables::Tables;
use crate::command::{Answer, Reply};

impl Tables {
    /// Leases what is ready, as far as the queue's gate allows.
    pub(crate) fn lease(&mut self, request: &LeaseRequest, now: Timestamp) -> Vec<Delivery> {
        let Some(queue) = self.queues.get_mut(request.queue()) else { return Vec::new() };
        let rules = Arc::clone(&queue.rules);
        let mut ids = queue.ready(request.max(), now);
        let want = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let allowed = queue.gate.allowance(&rules.config, queue.in_flight, want, now);
        ids.truncate(allowed as usize);
        queue.gate.leased(&rules.config, &ids, now);
        let probe = queue.gate.probe;
        ids.into_iter().map(|id| self.hand_out(id, &rules, request.duration(), probe, now)).collect()
    }

    fn hand_out(
        &mut self,
        id: JobId,
        rules: &Rules,
        asked: Option<Millis>,
        probe: Option<JobId>,
        now: Timestamp,
    ) -> Delivery {
        let token = self.next_token();
        self.change(id, |stored| {
            let (spec, progress) = (&stored.job.spec, &stored.job.progress);
            let deadline = now.plus(asked.unwrap_or_else(|| rules.lease_time(spec.overrides.timeout)));
            stored.lease = Some(Lease { token, since: now, deadline, received: false });
            Delivery {
                id,
                spec: Arc::clone(spec),
                attempt: progress.attempts.saturating_add(1),
                max_attempts: spec.max_attempts(&rules.config),
                deferrals: progress.deferrals,
                token,
                deadline,
                probe: probe == Some(id),
            }
        })
    }

    /// Moves the end of a lease. A lease that ran out but was not rescued is still its worker's, so it can be extended.
    pub(super) fn extend(&mut self, extend: &Extend, now: Timestamp) -> Answer {
        let id = extend.id;
        let stored = self.found(id)?;
        match (&stored.lease, extend.token) {
            (None, None) => return Err(Refusal::NotLeased { id, state: stored.state() }),
            (Some(_), None) => {}
            (Some(lease), Some(token)) if lease.token == token => {}
            (_, Some(_)) => return Err(Refusal::StaleLease(id)),
        }
        let deadline = now.plus(extend.duration());
        self.change(id, |stored| {
            if let Some(lease) = &mut stored.lease {
                lease.deadline = deadline;
            }
        });
        Ok(Reply::Extended(deadline))
    }

    /// When a lease may next have something: once a job is due and the gate lets one out.
    pub(crate) fn next_due(&self, name: &QueueName, now: Timestamp) -> Option<Timestamp> {
        let queue = self.queues.get(name)?;
        let due = queue.first_due()?;
        let gate = queue.gate.next_at(&queue.rules.config, queue.in_flight, now)?;
        Some(due.max(gate))
    }
}
