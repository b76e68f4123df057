//! Settling, extending, rescuing, cancelling, burying, replaying, releasing: what ends a delivery or changes a job's course.

use semel_core::gate::Signal;
use semel_core::ids::{JobId, Token};
use semel_core::job::Progress;
use semel_core::key::Key;
use semel_core::lease::{Extend, Lease};
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::outcome::Outcome;
use semel_core::refusal::Refusal;
use semel_core::settle::{self, Fence, Policy, Report, Settle, Verb};
use semel_core::time::{Millis, Timestamp};
use semel_store::{Reply, Rescued};

use super::{Engine, Table};
use crate::fault::{Fault, No};
use crate::leases::{Held, Place};

/// Which queue a job is in, where it stands, and when it is due again.
struct Standing {
    queue: QueueName,
    state: State,
    due: Option<Timestamp>,
}

impl Engine<'_> {
    pub(super) fn settle(&mut self, settle: &Settle) -> Result<Reply, No> {
        let id = settle.id();
        match self.fence(id, settle.token(), settle::verb(settle.outcome()))? {
            Err(Standing { queue, state, due }) => {
                Ok(Reply::Settled { queue, state, due, took: None, repeated: true })
            }
            Ok(()) if matches!(settle.outcome(), Outcome::Received) => self.receive(id),
            Ok(()) => {
                let held = self.take_lease(id)?;
                let (standing, took) = self.end_delivery(held, settle.outcome(), settle.report())?;
                let Standing { queue, state, due } = standing;
                Ok(Reply::Settled { queue, state, due, took: Some(took), repeated: false })
            }
        }
    }

    /// `Ok(Ok(()))`: the call is for the current delivery. `Ok(Err(..))`: it took effect before, and this is how the job
    /// stands.
    fn fence(&mut self, id: JobId, token: Option<Token>, verb: Verb) -> Result<Result<(), Standing>, No> {
        let (standing, lease, last) = match self.leases.get(id) {
            Some(held) => {
                let state = if held.lease.received { State::AwaitingAck } else { State::Processing };
                let queue = self.queue(held.stub.queue)?.name.clone();
                (Standing { queue, state, due: None }, Some(held.lease), held.progress.settled)
            }
            None => {
                let job = self.need_job(id)?.job;
                (standing(job.spec.queue.clone(), &job.progress), None, job.progress.settled)
            }
        };
        if self.sabotage == Some(crate::Sabotage::NoFencing) && lease.is_some() {
            return Ok(Ok(()));
        }
        match settle::fence(id, standing.state, lease.as_ref(), last, token, verb)? {
            Fence::Current(_) => Ok(Ok(())),
            Fence::Repeated => Ok(Err(standing)),
        }
    }

    fn receive(&mut self, id: JobId) -> Result<Reply, No> {
        let held = self.leases.get(id).ok_or(Refusal::StaleLease(id))?;
        let (no, was_received) = (held.stub.queue, held.lease.received);
        let deadline = self.now.plus(self.queue(no)?.rules.ack_time());
        self.leases.change(id, |lease| {
            lease.received = true;
            lease.deadline = deadline;
        });
        let now = self.now;
        let queue = self.queue_mut(no)?;
        queue.awaiting_ack += u32::from(!was_received);
        queue.counts.gate.settled(&queue.rules.config, id, Signal::Success, now);
        let (queue, state) = (queue.name.clone(), State::AwaitingAck);
        Ok(Reply::Settled { queue, state, due: None, took: None, repeated: false })
    }

    fn take_lease(&mut self, id: JobId) -> Result<Held, Fault> {
        let held =
            self.leases.remove(id).ok_or_else(|| Fault::Broken(format!("the lease of {id} is gone")))?;
        let queue = self.queue_mut(held.stub.queue)?;
        queue.in_flight -= 1;
        queue.awaiting_ack -= u32::from(held.lease.received);
        Ok(held)
    }

    /// Applies the outcome of a delivery whose lease has been taken. Says where its job stands then, and how long the
    /// delivery took.
    fn end_delivery(
        &mut self,
        held: Held,
        outcome: &Outcome,
        report: &Report,
    ) -> Result<(Standing, Millis), Fault> {
        let Held { lease, stub, progress } = held;
        let config = &self.queue(stub.queue)?.rules.config;
        let overrides = stub.overrides.as_deref();
        let policy = Policy {
            config,
            max_attempts: overrides.and_then(|o| o.max_attempts).unwrap_or(config.max_attempts),
            retry: overrides.and_then(|o| o.retry.as_ref()).unwrap_or(&config.retry),
        };
        let step = settle::step(stub.id, progress, policy, &lease, outcome, report, self.now)?;
        self.move_unfinished(&stub, &step.progress, true)?;
        let now = self.now;
        let queue = self.queue_mut(stub.queue)?;
        queue.counts.gate.settled(&queue.rules.config, stub.id, step.signal, now);
        Ok((standing(queue.name.clone(), &step.progress), step.took))
    }

    pub(super) fn extend(&mut self, extend: &Extend) -> Result<Reply, No> {
        let id = extend.id;
        let Some(held) = self.leases.get(id) else {
            let state = self.need_job(id)?.job.progress.state;
            return Err(match extend.token {
                Some(_) => Refusal::StaleLease(id).into(),
                None => Refusal::NotLeased { id, state }.into(),
            });
        };
        if extend.token.is_some_and(|token| token != held.lease.token) {
            return Err(Refusal::StaleLease(id).into());
        }
        let deadline = self.now.plus(extend.duration());
        self.leases.change(id, |lease| lease.deadline = deadline);
        Ok(Reply::Extended(deadline))
    }

    pub(super) fn rescue(&mut self, limit: u32) -> Result<Reply, No> {
        let limit = limit as usize;
        let ids = self.leases.expired(self.now, limit.saturating_add(1));
        let more = ids.len() > limit;
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids.into_iter().take(limit) {
            let held = self.take_lease(id)?;
            let (Standing { queue, state, due }, _) =
                self.end_delivery(held, &Outcome::Expired, &Report::default())?;
            jobs.push(Rescued { id, queue, state, due });
        }
        Ok(Reply::Rescued { jobs, more })
    }

    pub(super) fn cancel(&mut self, id: JobId) -> Result<Reply, No> {
        let now = self.now;
        self.end_by_hand(id, |progress, lease| settle::cancel(id, progress, lease.is_some(), now))
    }

    pub(super) fn bury(&mut self, id: JobId, reason: &str) -> Result<Reply, No> {
        let now = self.now;
        self.end_by_hand(id, |progress, lease| settle::bury(id, progress, lease, reason, now))
    }

    /// Ends an unfinished job, wherever it is. A delivery that is out is lost to the gate, and its token is stale.
    fn end_by_hand(
        &mut self,
        id: JobId,
        end: impl FnOnce(Progress, Option<&Lease>) -> Result<Progress, Refusal>,
    ) -> Result<Reply, No> {
        if let Some(held) = self.leases.get(id) {
            let progress = end(held.progress.clone(), Some(&held.lease))?;
            let held = self.take_lease(id)?;
            self.move_unfinished(&held.stub, &progress, true)?;
            let now = self.now;
            let queue = self.queue_mut(held.stub.queue)?;
            queue.counts.gate.settled(&queue.rules.config, id, Signal::Lost, now);
            return Ok(Reply::Done);
        }
        let loaded = self.need_job(id)?;
        let progress = end(loaded.job.progress.clone(), None)?;
        let place = self.place_of(&loaded)?;
        self.move_unfinished(&loaded.stub(place), &progress, false)?;
        Ok(Reply::Done)
    }

    pub(super) fn replay(&mut self, id: JobId) -> Result<Reply, No> {
        let loaded = self.need_job(id)?;
        let progress = settle::replay(id, &loaded.job.spec, loaded.job.progress.clone(), self.now)?;
        if self.queue(loaded.queue)?.deleted {
            return Err(Refusal::QueueNotFound(loaded.job.spec.queue.clone()).into());
        }
        self.db.dead.delete(id)?;
        self.rewrite(Table::Live, id, &progress)?;
        let counts = &mut self.queue_mut(loaded.queue)?.counts;
        counts.dead -= 1;
        counts.unfinished += 1;
        let stub = loaded.stub(Place::Waiting { live: true });
        self.enqueue(&stub, progress.due)?;
        Ok(Reply::Done)
    }

    pub(super) fn release_key(&mut self, queue: &QueueName, key: &Key, reason: String) -> Result<Reply, No> {
        let no = self.queues.number(queue).ok_or_else(|| Refusal::QueueNotFound(queue.clone()))?;
        let hash = self.hasher.hash(no, key.as_str());
        let newest = self.newest_with_key(no, key, hash)?;
        let config = &self.queue(no)?.rules.config;
        let held = newest.filter(|job| job.holds_key(config, self.now));
        let id = held.ok_or_else(|| Refusal::KeyNotFound(key.to_string()))?.id;
        self.release(id, reason)?;
        Ok(Reply::KeyReleased(id))
    }

    /// Notes on a job that its key is free.
    pub(super) fn release(&mut self, id: JobId, reason: String) -> Result<(), No> {
        if self.leases.contains(id) {
            return self.release_leased(id, reason);
        }
        let loaded = self.need_job(id)?;
        let mut progress = loaded.job.progress.clone();
        progress.released = Some(reason);
        match loaded.table {
            Some(table) => self.rewrite(table, id, &progress)?,
            // It had no row of its own yet; from now on it has one.
            None => {
                let place = self.place_of(&loaded)?;
                self.move_unfinished(&loaded.stub(place), &progress, false)?;
            }
        }
        self.sweep.finished(id);
        Ok(())
    }

    /// A leased job's progress is in memory, but a release must survive a crash: it gets a row at once.
    fn release_leased(&mut self, id: JobId, reason: String) -> Result<(), No> {
        let Some(mut held) = self.leases.remove(id) else { return Ok(()) };
        held.progress.released = Some(reason);
        let waiting = Progress { state: State::Pending, ..held.progress.clone() };
        self.move_unfinished(&held.stub, &waiting, true)?;
        held.stub.place = Place::Ordered { due: waiting.due, live: true };
        self.leases.insert(held);
        Ok(())
    }
}

/// Where a job stands that nobody has leased.
fn standing(queue: QueueName, progress: &Progress) -> Standing {
    let due = (progress.state == State::Pending).then_some(progress.due);
    Standing { queue, state: progress.state, due }
}
