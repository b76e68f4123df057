//! Leasing: the next ready jobs of a queue, in order, as many as its gate allows.

use std::collections::VecDeque;
use std::sync::Arc;

use semel_core::gate::Gate;
use semel_core::ids::JobId;
use semel_core::job::{JobSpec, Progress};
use semel_core::lease::{Delivery, Lease, LeaseRequest};
use semel_core::time::Timestamp;

use super::{Engine, Table};
use crate::backlog::decode_ids;
use crate::fault::Fault;
use crate::leases::{Held, PLAIN_RANK, Place, Stub};

/// A job that may go out.
struct Candidate {
    id: JobId,
    spec: JobSpec,
    progress: Progress,
    place: Place,
}

impl Engine<'_> {
    pub(crate) fn lease(&mut self, request: &LeaseRequest) -> Result<Vec<Delivery>, Fault> {
        self.tick();
        let Some(no) = self.queues.number(request.queue()) else { return Ok(Vec::new()) };
        let queue = self.queue(no)?;
        let room = queue.counts.gate.allowance(&queue.rules.config, queue.in_flight, request.max(), self.now);
        let picked = self.pick(no, room as usize)?;
        let ids: Vec<JobId> = picked.iter().map(|c| c.id).collect();
        let probe = self.tell_gate(no, &ids)?;
        picked.into_iter().map(|c| self.hand_out(no, c, request, probe)).collect()
    }

    /// Tells the gate what goes out, and returns the job that is now its probe.
    fn tell_gate(&mut self, no: u32, ids: &[JobId]) -> Result<Option<JobId>, Fault> {
        let now = self.now;
        let queue =
            self.queues.get_mut(no).ok_or_else(|| Fault::Broken(format!("queue number {no} is gone")))?;
        let gate: &mut Gate = &mut queue.counts.gate;
        gate.leased(&queue.rules.config, ids, now);
        queue.in_flight += u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Ok(gate.probe)
    }

    fn hand_out(
        &mut self,
        no: u32,
        c: Candidate,
        request: &LeaseRequest,
        probe: Option<JobId>,
    ) -> Result<Delivery, Fault> {
        let rules = &self.queue(no)?.rules;
        let time = request.duration().unwrap_or_else(|| rules.lease_time(c.spec.overrides.timeout));
        let max_attempts = c.spec.max_attempts(&rules.config);
        let (token, deadline) = (self.tokens.next(), self.now.plus(time));
        let lease = Lease { token, since: self.now, deadline, received: false };
        let delivery = Delivery {
            id: c.id,
            attempt: c.progress.attempts.saturating_add(1),
            max_attempts,
            deferrals: c.progress.deferrals,
            token: lease.token,
            deadline: lease.deadline,
            probe: probe == Some(c.id),
            spec: Arc::new(c.spec),
        };
        let stub = Stub::new(c.id, no, &delivery.spec, c.place);
        self.leases.insert(Held { lease, stub, progress: c.progress });
        Ok(delivery)
    }

    /// The next `room` ready jobs, rank by rank; within the plain rank the backlog and the order are merged by due time.
    fn pick(&mut self, no: u32, room: usize) -> Result<Vec<Candidate>, Fault> {
        let mut picked = Vec::new();
        let mut rank = 0;
        while picked.len() < room {
            let ordered =
                if self.queue(no)?.counts.ordered > 0 { self.db.rank_from(no, rank)? } else { None };
            let next = match ordered {
                Some(at) if at < PLAIN_RANK || rank > PLAIN_RANK => at,
                _ if rank <= PLAIN_RANK => PLAIN_RANK,
                Some(at) => at,
                None => break,
            };
            self.pick_rank(no, next, room, &mut picked)?;
            rank = next + 1;
        }
        Ok(picked)
    }

    fn pick_rank(
        &mut self,
        no: u32,
        rank: u8,
        room: usize,
        picked: &mut Vec<Candidate>,
    ) -> Result<(), Fault> {
        let mut ordered = self.ready_in_order(no, rank, room - picked.len())?;
        let mut plain = if rank == PLAIN_RANK { self.next_plain(no)? } else { None };
        while picked.len() < room {
            let plain_first = match (&plain, ordered.front()) {
                (Some(p), Some(&(due, id))) => (p.spec.created_at, p.id) < (due, id),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            if plain_first {
                picked.extend(plain.take());
                self.queue_mut_clean(no)?.backlog.pop();
                plain = if picked.len() < room { self.next_plain(no)? } else { None };
            } else if let Some((due, id)) = ordered.pop_front() {
                picked.extend(self.ordered_candidate(id, due)?);
            }
        }
        Ok(())
    }

    fn ready_in_order(
        &mut self,
        no: u32,
        rank: u8,
        room: usize,
    ) -> Result<VecDeque<(Timestamp, JobId)>, Fault> {
        let mut ready = VecDeque::new();
        if self.queue(no)?.counts.ordered == 0 {
            return Ok(ready);
        }
        let leases = &self.leases;
        self.db.each_ready(no, rank, self.now, |due, id| {
            if !leases.contains(id) {
                ready.push_back((due, id));
            }
            ready.len() < room
        })?;
        Ok(ready)
    }

    fn ordered_candidate(&mut self, id: JobId, due: Timestamp) -> Result<Option<Candidate>, Fault> {
        let read = (self.spec(id), self.stored_progress(id));
        let (spec, stored) = match read {
            (Ok(Some((_, spec))), Ok(stored)) => (spec, stored),
            (Ok(None), _) => return Err(Fault::Broken(format!("job {id} is in order but has no row"))),
            (Err(fault), _) | (_, Err(fault)) => return skip_damaged(fault),
        };
        let live = matches!(stored, Some((Table::Live, _)));
        let progress = stored.map_or_else(|| Progress::fresh(spec.run_at), |(_, progress)| progress);
        Ok(Some(Candidate { id, spec, progress, place: Place::Ordered { due, live } }))
    }

    /// The next plain job, which stays at the front of the backlog until it is popped.
    fn next_plain(&mut self, no: u32) -> Result<Option<Candidate>, Fault> {
        loop {
            self.load_chunks(no)?;
            let Some(id) = self.queue_mut_clean(no)?.backlog.front() else { return Ok(None) };
            let found = match self.spec(id) {
                Ok(Some((_, spec))) => Some(spec),
                Ok(None) => return Err(Fault::Broken(format!("job {id} is in a backlog but has no row"))),
                Err(fault) => {
                    skip_damaged(fault)?;
                    None
                }
            };
            if let Some(spec) = found {
                let progress = Progress::fresh(spec.run_at);
                return Ok(Some(Candidate { id, spec, progress, place: Place::Backlog }));
            }
            self.queue_mut_clean(no)?.backlog.pop();
        }
    }

    /// As `queue_mut`, for changes that are not stored.
    fn queue_mut_clean(&mut self, no: u32) -> Result<&mut crate::queues::Queue, Fault> {
        self.queues.get_mut(no).ok_or_else(|| Fault::Broken(format!("queue number {no} is gone")))
    }

    fn load_chunks(&mut self, no: u32) -> Result<(), Fault> {
        while let Some((first, last, stale)) = self.queue_mut_clean(no)?.backlog.wants() {
            let rec =
                self.db.chunk(first)?.ok_or_else(|| Fault::Broken(format!("chunk {first} is missing")))?;
            let mut ids = decode_ids(&rec, first).map_err(|damage| Fault::damaged("chunk", first, damage))?;
            if stale {
                self.drop_ended(first, last, &mut ids)?;
            }
            // An empty chunk's row goes with the next seal; it cannot be deleted here, outside a transaction.
            if let Some(empty) = self.queue_mut_clean(no)?.backlog.load(first, ids) {
                self.empty_chunks.push(empty);
            }
        }
        Ok(())
    }

    /// Takes out of a list of ids those that are not plain and pending any more.
    fn drop_ended(&mut self, first: JobId, last: JobId, ids: &mut Vec<JobId>) -> Result<(), Fault> {
        for table in ["live", "done", "dead"] {
            let ended = self.db.ids_between(table, first, last)?;
            ids.retain(|id| ended.binary_search(id).is_err());
        }
        // One that ended and was pruned has left no trace but its place in the list.
        let mut kept = Vec::with_capacity(ids.len());
        for &id in ids.iter() {
            if self.db.job.get(id, |_| ())?.is_some() {
                kept.push(id);
            }
        }
        *ids = kept;
        Ok(())
    }

    /// When a lease may next have something for a queue.
    pub(crate) fn next_due(&mut self, name: &semel_core::QueueName) -> Result<Option<Timestamp>, Fault> {
        self.tick();
        let Some(no) = self.queues.number(name) else { return Ok(None) };
        let Some(due) = self.earliest_due(no)? else { return Ok(None) };
        let queue = self.queue(no)?;
        let gate = queue.counts.gate.next_at(&queue.rules.config, queue.in_flight, self.now);
        Ok(gate.map(|open| open.max(due)))
    }

    /// The earliest due time of the open jobs of a queue that no worker has.
    pub(super) fn earliest_due(&mut self, no: u32) -> Result<Option<Timestamp>, Fault> {
        let mut earliest = self.next_plain(no)?.map(|c| c.spec.created_at);
        let mut from = Some(0);
        while let Some(rank) = from.map(|f| self.db.rank_from(no, f)).transpose()?.flatten() {
            let leases = &self.leases;
            let first = self.db.first_of_rank(no, rank, |id| !leases.contains(id))?;
            earliest = earliest.into_iter().chain(first).min();
            from = rank.checked_add(1);
        }
        Ok(earliest)
    }
}

/// A job whose record cannot be read is not handed out, and does not keep the ones behind it from going.
/// It stays where it is, loud in the log, for `semel store check` and a person.
fn skip_damaged(fault: Fault) -> Result<Option<Candidate>, Fault> {
    match fault {
        Fault::Damaged { .. } => {
            tracing::error!(%fault, "a job is passed over because it is damaged");
            Ok(None)
        }
        other => Err(other),
    }
}
