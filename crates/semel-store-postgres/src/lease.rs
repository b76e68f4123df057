//! Leases: ready jobs go out to workers.
//!
//! Where nothing limits a queue (it is *free*) one statement finds the jobs, marks them and returns them, without any lock but
//! those of the rows: it is ordered before whatever changes the queue meanwhile. Everywhere else the gate decides, so the
//! queue is locked, the gate read, and what it allows is taken.

mod held;
mod mark;
mod next;
mod statements;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use semel_core::ids::JobId;
use semel_core::job::{Job, JobSpec, Progress};
use semel_core::lease::{Delivery, Lease, LeaseRequest};
use semel_core::name::QueueName;
use semel_core::queue::Rules;
use semel_core::time::Timestamp;
use semel_store::StoreError;
use semel_store::working::Stored;
use tokio_postgres::Row;

use crate::catalog::{Seen, queue_id};
use crate::fault::Fault;
use crate::patience::Patience;
use crate::row::{Cells, JobRow, QueueRow, count, job_id, sql_id, sql_time, sql_token, time, token};
use crate::session::{Param, Session};
use crate::store::PostgresStore;
pub(crate) use mark::Marks;
use mark::{Place, Search};
use statements::{FREE_LEASE, QUEUE, SET_DEADLINES};

/// How often a lease asks again because the queue was changed between its two questions.
const TRIES: u32 = 4;

/// How a lease on a free queue went.
enum Tried {
    /// There is no such queue.
    NoQueue,
    /// These went out.
    Leased(Vec<Delivery>),
    /// The queue is not free, or not the one this node remembers.
    NotSo,
}

impl PostgresStore {
    /// Leases what is ready, as far as the queue's gate allows.
    pub(crate) async fn lease_jobs(&self, request: &LeaseRequest) -> Result<Vec<Delivery>, StoreError> {
        let mut patience = Patience::new(self.options.patience);
        loop {
            // A lease whose answer was lost may have been given. It runs out like any other that nobody settles.
            let fault = match self.try_lease(request, &patience).await {
                Ok(deliveries) => return Ok(deliveries),
                Err(fault) => fault,
            };
            if !patience.again(&fault).await {
                return Err(fault.nothing_done());
            }
        }
    }

    async fn try_lease(&self, request: &LeaseRequest, patience: &Patience) -> Result<Vec<Delivery>, Fault> {
        let session = self.pool.session_within(patience).await?;
        for _ in 0..TRIES {
            if let Some(seen) = self.catalog.last_seen(request.queue()) {
                match self.lease_free(&session, request, &seen).await? {
                    Tried::Leased(deliveries) => return Ok(deliveries),
                    Tried::NoQueue => return Ok(Vec::new()),
                    Tried::NotSo => {}
                }
            }
            let Some((row, now)) = self.look_at_queue(&session, request.queue()).await? else {
                return Ok(Vec::new());
            };
            if !crate::row::is_free(&row.record.config, &row.record.gate) {
                return self.lease_held(&session, request, &row, now).await;
            }
        }
        Ok(Vec::new())
    }

    /// A queue as it is now, remembered for the next time.
    async fn look_at_queue(
        &self,
        session: &Session,
        name: &QueueName,
    ) -> Result<Option<(QueueRow, Timestamp)>, Fault> {
        let Some(row) = session.query_opt(&QUEUE, &[&name.as_str()]).await? else { return Ok(None) };
        let mut cells = Cells::of(&row);
        let now = self.clock.decides(cells.take()?);
        let row = QueueRow::read(&mut cells)?;
        self.catalog.learn(name.clone(), row.id);
        self.catalog.rules(row.id, row.version, &row.record.config)?;
        Ok(Some((row, now)))
    }

    /// Leases from behind the jobs that went out before, and from the front if there is nothing.
    async fn lease_free(
        &self,
        session: &Session,
        request: &LeaseRequest,
        seen: &Seen,
    ) -> Result<Tried, Fault> {
        let search = self.marks.begin(seen.id, Instant::now());
        let tried = self.search(session, request, seen, search).await?;
        let nothing = matches!(&tried, Tried::Leased(deliveries) if deliveries.is_empty());
        if !nothing || search.is_at_the_front() {
            return Ok(tried);
        }
        let search = self.marks.begin_at_the_front(seen.id, Instant::now());
        self.search(session, request, seen, search).await
    }

    async fn search(
        &self,
        session: &Session,
        request: &LeaseRequest,
        Seen { id, version, rules }: &Seen,
        search: Search,
    ) -> Result<Tried, Fault> {
        let span = request.duration().unwrap_or_else(|| rules.lease_time(None));
        let span = i64::try_from(span.millis()).unwrap_or(i64::MAX);
        let (name, max, now) = (request.queue().as_str(), i64::from(request.max()), self.clock.instead());
        let (node, Place { rank, due, id: after }) = (self.node(), search.behind);
        let params: [Param<'_>; 10] = [&name, id, version, &now, &max, &span, &node, &rank, &due, &after];
        let rows = session.query(&FREE_LEASE, &params).await?;
        let Some(first) = rows.first() else { return Ok(Tried::NoQueue) };
        let mut cells = Cells::of(first);
        let (now, as_known, paused): (i64, bool, bool) = (cells.take()?, cells.take()?, cells.take()?);
        if !as_known {
            return Ok(Tried::NotSo);
        }
        if paused {
            return Ok(Tried::Leased(Vec::new()));
        }
        let now = self.clock.decides(now);
        let found = read_found(&rows, request.queue(), rules)?;
        let all = u64::from(request.max()) > found.len() as u64;
        self.marks.ended(*id, search, found.last().map(|found| found.place), all, now);
        let known = found.iter().filter(|found| !found.has_story && self.options.prepare);
        let known: Vec<_> = known.map(|found| found.handed_out(*id, now)).collect();
        let mut deliveries: Vec<_> = found.into_iter().map(|found| found.delivery).collect();
        if request.duration().is_none() {
            set_deadlines(session, &mut deliveries, rules, now).await?;
        }
        self.handed_out.note(known);
        Ok(Tried::Leased(deliveries))
    }
}

/// A job on its way out.
struct Found {
    delivery: Delivery,
    place: Place,
    /// Whether more has become of it than a delivery tells.
    has_story: bool,
}

/// What was found, from rows of `FREE_LEASE`. If that was nothing the only row has nothing behind its first cells.
fn read_found(rows: &[Row], queue: &QueueName, rules: &Rules) -> Result<Vec<Found>, Fault> {
    let read = |row: &Row| {
        let mut cells = Cells::of(row);
        let _: (i64, bool, bool) = (cells.take()?, cells.take()?, cells.take()?);
        let Some(due) = cells.take()? else { return Ok(None) };
        let (rank, has_story): (i16, bool) = (cells.take()?, cells.take()?);
        let delivery = read_delivery(&mut cells, queue, rules, None)?;
        let place = Place { rank, due, id: sql_id(delivery.id) };
        Ok(Some(Found { delivery, place, has_story }))
    };
    rows.iter().filter_map(|row| read(row).transpose()).collect()
}

impl Found {
    /// Its job, as it stands now. Its deadline may be moved later, which decides nothing about how it ends.
    fn handed_out(&self, queue: i32, now: Timestamp) -> Stored {
        let Delivery { id, attempt, deferrals, token, deadline, ref spec, .. } = self.delivery;
        let fresh = Progress::fresh(time(self.place.due));
        let progress = Progress { attempts: attempt.saturating_sub(1), deferrals, ..fresh };
        let lease = Lease { token, since: now, deadline, received: false };
        Stored {
            job: Job { id, spec: Arc::clone(spec), progress, duplicates: 0 },
            queue: queue_id(queue),
            lease: Some(lease),
            open: true,
            suppressed: VecDeque::new(),
        }
    }
}

/// Gives jobs that say themselves how long a delivery may take the time they ask for. The statement that leases knows only
/// what the queue says.
async fn set_deadlines(
    session: &Session,
    deliveries: &mut [Delivery],
    rules: &Rules,
    now: Timestamp,
) -> Result<(), Fault> {
    let (mut ids, mut tokens, mut deadlines) = (Vec::new(), Vec::new(), Vec::new());
    for delivery in deliveries.iter_mut() {
        if let Some(timeout) = delivery.spec.overrides.timeout {
            delivery.deadline = now.plus(rules.lease_time(Some(timeout)));
            ids.push(sql_id(delivery.id));
            tokens.push(sql_token(delivery.token));
            deadlines.push(sql_time(delivery.deadline));
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    session.execute(&SET_DEADLINES, &[&ids, &tokens, &deadlines]).await.map(drop)
}

/// A job on its way out, from the cells of `lease_columns`.
fn read_delivery(
    cells: &mut Cells<'_>,
    queue: &QueueName,
    rules: &Rules,
    probe: Option<JobId>,
) -> Result<Delivery, Fault> {
    let raw: i64 = cells.take()?;
    let (attempts, deferrals): (i32, i32) = (cells.take()?, cells.take()?);
    let (held, deadline): (i64, i64) = (cells.take()?, cells.take()?);
    let spec: JobSpec = JobRow::read(cells, raw, queue.clone())?;
    let id = job_id(raw)?;
    Ok(Delivery {
        id,
        attempt: count(attempts).saturating_add(1),
        max_attempts: spec.max_attempts(&rules.config),
        deferrals: count(deferrals),
        token: token(held),
        deadline: time(deadline),
        probe: probe == Some(id),
        spec: Arc::new(spec),
    })
}
