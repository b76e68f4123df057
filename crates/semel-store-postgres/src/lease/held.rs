//! Leases of a queue whose gate has something to say: limits, a hold, a breaker that counts.

use std::sync::Arc;

use semel_core::gate::Gate;
use semel_core::ids::JobId;
use semel_core::job::Overrides;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::queue::Rules;
use semel_core::time::Timestamp;
use tokio_postgres::Row;

use super::read_delivery;
use super::statements::{LOCK_QUEUE, LOCKED_QUEUE, READY, SET_GATE, TAKE};
use crate::fault::Fault;
use crate::flight::Flight;
use crate::locks;
use crate::row::{Cells, QueueRow, gate_text, is_free, job_id, read_overrides, sql_id, sql_time};
use crate::session::Session;
use crate::store::PostgresStore;

/// A queue that is locked for this lease alone.
struct Held {
    queue: QueueRow,
    rules: Arc<Rules>,
    now: Timestamp,
    in_flight: u32,
    ready: Vec<(JobId, Overrides)>,
}

impl PostgresStore {
    /// Leases what the gate allows. `seen` is the queue as it was a moment ago: if it lets nothing out whatever is in flight,
    /// nobody is kept waiting for the lock.
    pub(super) async fn lease_held(
        &self,
        session: &Session,
        request: &LeaseRequest,
        seen: &QueueRow,
        now: Timestamp,
    ) -> Result<Vec<Delivery>, Fault> {
        if seen.record.gate.allowance(&seen.record.config, 0, request.max(), now) == 0 {
            return Ok(Vec::new());
        }
        let leased = self.lease_locked(session, request, seen).await;
        if leased.is_err() {
            // Should this fail too the connection does not go back to the pool, and its end is that of the transaction.
            session.rollback().await.ok();
        }
        leased
    }

    async fn lease_locked(
        &self,
        session: &Session,
        request: &LeaseRequest,
        seen: &QueueRow,
    ) -> Result<Vec<Delivery>, Fault> {
        let Some(held) = self.hold(session, request, seen).await? else {
            session.commit().await?;
            return Ok(Vec::new());
        };
        let Held { queue, rules, now, in_flight, mut ready } = held;
        let want = u32::try_from(ready.len()).unwrap_or(u32::MAX);
        let mut gate = queue.record.gate.clone();
        let allowed = gate.allowance(&rules.config, in_flight, want, now);
        ready.truncate(usize::try_from(allowed).unwrap_or(usize::MAX));
        let ids: Vec<JobId> = ready.iter().map(|(id, _)| *id).collect();
        gate.leased(&rules.config, &ids, now);
        let deadline = |(_, overrides): &(JobId, Overrides)| {
            now.plus(request.duration().unwrap_or_else(|| rules.lease_time(overrides.timeout)))
        };
        let deadlines: Vec<i64> = ready.iter().map(|job| sql_time(deadline(job))).collect();
        let ids: Vec<i64> = ids.into_iter().map(sql_id).collect();
        let rows = self.take(session, &queue, &gate, &ids, &deadlines, now).await?;
        let delivery = |row: &Row| read_delivery(&mut Cells::of(row), request.queue(), &rules, gate.probe);
        rows.iter().map(delivery).collect()
    }

    /// Locks the queue and reads what the gate has to know; nothing if the queue is gone.
    async fn hold(
        &self,
        session: &Session,
        request: &LeaseRequest,
        seen: &QueueRow,
    ) -> Result<Option<Held>, Fault> {
        let (limit, max, now) = (i64::MAX, i64::from(request.max()), self.clock.instead());
        let mut flight = Flight::on(session);
        flight.begin();
        flight.query(&LOCK_QUEUE, vec![&locks::QUEUE, &seen.id]);
        let queue = flight.query(&LOCKED_QUEUE, vec![&seen.id, &limit]);
        let ready = flight.query(&READY, vec![&seen.id, &now, &max]);
        let landed = flight.land().await?;
        let Some(row) = landed.rows(queue).first() else { return Ok(None) };
        let mut cells = Cells::of(row);
        let now = self.clock.decides(cells.take()?);
        let in_flight: i64 = cells.take()?;
        let queue = QueueRow::read(&mut cells)?;
        if queue.deleted {
            return Ok(None);
        }
        let rules = self.catalog.rules(queue.id, queue.version, &queue.record.config)?;
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let ready = landed.rows(ready).iter().map(read_ready).collect::<Result<_, _>>()?;
        Ok(Some(Held { queue, rules, now, in_flight, ready }))
    }

    /// Marks the jobs, keeps the gate if it changed, and ends the transaction.
    async fn take(
        &self,
        session: &Session,
        queue: &QueueRow,
        gate: &Gate,
        ids: &Vec<i64>,
        deadlines: &Vec<i64>,
        now: Timestamp,
    ) -> Result<Vec<Row>, Fault> {
        let (text, now, node) = (gate_text(gate), sql_time(now), self.node());
        let (free, paused) = (is_free(&queue.record.config, gate), gate.paused);
        let mut flight = Flight::on(session);
        let taken = (!ids.is_empty()).then(|| flight.query(&TAKE, vec![ids, deadlines, &now, &node]));
        if *gate != queue.record.gate {
            flight.query(&SET_GATE, vec![&queue.id, &text, &free, &paused]);
        }
        flight.commit();
        Ok(flight.land().await?.take(taken))
    }
}

fn read_ready(row: &Row) -> Result<(JobId, Overrides), Fault> {
    let mut cells = Cells::of(row);
    let id: i64 = cells.take()?;
    let overrides = read_overrides(cells.take()?)
        .map_err(|_| Fault::damaged("job", id, "its overrides cannot be read"))?;
    Ok((job_id(id)?, overrides))
}
