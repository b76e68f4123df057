//! The transaction of a batch: its connection, its locks, and the time it decides by.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::ids::{IdGenerator, JobId};
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::{Answer, Command};
use tokio_postgres::types::Type;

use super::Setback;
use super::load::Loaded;
use super::wants::{Wants, bounded};
use crate::clock::database_now;
use crate::fault::Fault;
use crate::flight::{Flight, Landed, Seat};
use crate::locks;
use crate::row::{Cells, job_id, sql_id};
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

/// The numbers of queues that have no number here yet.
static FIND_QUEUES: Sql = Sql {
    text: "SELECT name, id FROM semel.queue WHERE name = ANY ($1) AND NOT deleted",
    types: &[Type::TEXT_ARRAY],
};

/// The leases that ran out first, of all queues.
static FIND_EXPIRED: Sql = Sql {
    text: concat!(
        "SELECT l.id
           FROM semel.queue q
          CROSS JOIN LATERAL (
                SELECT id, deadline
                  FROM semel.live
                 WHERE queue = q.id AND token IS NOT NULL
                   AND deadline <= (SELECT coalesce($1, ",
        database_now!(),
        "))
                 ORDER BY deadline, id
                 LIMIT $2
                ) l
          WHERE NOT q.deleted
          ORDER BY l.deadline, l.id
          LIMIT $2"
    ),
    types: &[Type::INT8, Type::INT8],
};

/// Locks the queues that are named and those of the jobs that are named, in the order of their numbers: shared, or alone
/// where a queue is not free or where it is asked for. The statements after it find their numbers in a setting that ends
/// with the transaction. The time is told last, when all locks are held.
static LOCK_QUEUES: Sql = Sql {
    text: concat!(
        "WITH wanted AS (
             SELECT unnest($1) AS id
              UNION
             SELECT coalesce(l.queue, (SELECT d.queue FROM semel.done d WHERE d.id = u.id))
               FROM unnest($2) AS u (id)
               LEFT JOIN semel.live l ON l.id = u.id
         ),
         sorted AS MATERIALIZED (
             SELECT q.id, NOT q.free OR q.id = ANY ($3) AS alone
               FROM semel.queue q
               JOIN wanted w ON w.id = q.id
              ORDER BY q.id
         ),
         locked AS MATERIALIZED (
             SELECT id, alone,
                    CASE WHEN alone THEN pg_advisory_xact_lock($4, id)
                         ELSE pg_advisory_xact_lock_shared($4, id)
                     END AS held
               FROM sorted
         )
         SELECT set_config('semel.queues', coalesce(array_agg(id), '{}')::text, true),
                coalesce(array_agg(id) FILTER (WHERE alone), '{}'), ",
        database_now!(),
        " FROM locked"
    ),
    types: &[Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT4_ARRAY, Type::INT4],
};

/// A transaction under way.
pub(crate) struct Work<'a> {
    pub(crate) store: &'a PostgresStore,
    pub(crate) session: &'a Session,
    /// The numbers of the queues that the batch names, of those that there are.
    pub(super) names: BTreeMap<QueueName, i32>,
    /// Leases that had run out when the batch came.
    pub(super) expired: Vec<JobId>,
    /// Queues that this transaction made, which nobody else can see.
    pub(super) made: Vec<i32>,
    asked: Asked,
    /// Queues that are locked for this transaction alone.
    alone: BTreeSet<i32>,
    /// The time that all of the batch is decided by; nothing before the transaction has begun.
    now: Option<Timestamp>,
    lent: Option<Lent>,
}

/// What the locks are asked for with.
#[derive(Debug, Default)]
struct Asked {
    queues: Vec<i32>,
    jobs: Vec<i64>,
    alone: Vec<i32>,
}

/// The generator of ids before this transaction used it, and after.
#[derive(Debug)]
struct Lent {
    before: IdGenerator,
    after: IdGenerator,
}

impl<'a> Work<'a> {
    /// Finds out what the batch is about. Nothing is sent of the transaction itself yet.
    pub(super) async fn prepare(
        store: &'a PostgresStore,
        session: &'a Session,
        wants: &Wants,
        alone: &BTreeSet<i32>,
    ) -> Result<Self, Fault> {
        let names = find_queues(store, session, wants).await?;
        let expired = find_expired(store, session, wants).await?;
        let number = |name: &QueueName| names.get(name).copied();
        let asked = Asked {
            queues: names.values().copied().collect(),
            jobs: wants.jobs.keys().chain(&expired).map(|id| sql_id(*id)).collect(),
            alone: wants.changed.iter().filter_map(number).chain(alone.iter().copied()).collect(),
        };
        let (made, alone) = (Vec::new(), BTreeSet::new());
        Ok(Self { store, session, names, expired, made, asked, alone, now: None, lent: None })
    }

    /// A flight on this transaction's connection. The first one begins the transaction and takes its locks.
    pub(crate) fn flight(&self) -> (Flight<'_>, Option<Seat>) {
        let mut flight = Flight::on(self.session);
        if self.now.is_some() {
            return (flight, None);
        }
        flight.begin();
        let Asked { queues, jobs, alone } = &self.asked;
        let locks = flight.query(&LOCK_QUEUES, vec![queues, jobs, alone, &locks::QUEUE]);
        (flight, Some(locks))
    }

    /// Notes what the first flight found.
    pub(crate) fn landed(&mut self, landed: &Landed, locks: Option<Seat>) -> Result<(), Fault> {
        let Some(row) = landed.rows_of(locks).first() else { return Ok(()) };
        let mut cells = Cells::of(row);
        cells.take::<&str>()?;
        self.alone = cells.take::<Vec<i32>>()?.into_iter().collect();
        self.now = Some(self.store.clock.decides(cells.take()?));
        Ok(())
    }

    /// The time that is decided by.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.unwrap_or_default()
    }

    /// Whether this transaction has locked anything.
    pub(crate) fn has_locks(&self) -> bool {
        !(self.asked.queues.is_empty() && self.asked.jobs.is_empty() && self.made.is_empty())
    }

    /// Whether a queue is this transaction's alone.
    pub(super) fn has_alone(&self, queue: i32) -> bool {
        self.alone.contains(&queue) || self.made.contains(&queue)
    }

    /// Applies commands to what was loaded. Two batches never make ids at the same time.
    pub(super) fn decide(&mut self, loaded: &mut Loaded, commands: &[Command]) -> Vec<Answer> {
        let now = self.now();
        let mut ids = self.store.ids.lock().expect("the lock is never held across a panic");
        let before = ids.clone();
        loaded.highest.iter().for_each(|id| ids.resume_above(*id));
        let answers = loaded.set.apply(commands.iter().map(bounded), &mut ids, now);
        let after = ids.clone();
        match &mut self.lent {
            Some(lent) => lent.after = after,
            none => *none = Some(Lent { before, after }),
        }
        answers
    }

    /// Undoes the transaction. The ids it made are made again, unless others were made since.
    pub(super) async fn undo(self) {
        if let Some(Lent { before, after }) = self.lent {
            let mut ids = self.store.ids.lock().expect("the lock is never held across a panic");
            if *ids == after {
                *ids = before;
            }
        }
        if let Err(fault) = self.session.rollback().await {
            // The connection does not go back to the pool then, and its end is the end of the transaction.
            tracing::debug!(%fault, "a transaction could not be rolled back");
        }
    }

    /// Sends a flight; with the COMMIT if it is the last one.
    pub(crate) async fn send(&self, mut flight: Flight<'_>, last: bool) -> Result<Landed, Setback> {
        if !last {
            return Ok(flight.land().await?);
        }
        flight.commit();
        flight.land().await.map_err(Setback::Unclear)
    }
}

async fn find_queues(
    store: &PostgresStore,
    session: &Session,
    wants: &Wants,
) -> Result<BTreeMap<QueueName, i32>, Fault> {
    let mut found = BTreeMap::new();
    let mut unknown = Vec::new();
    for name in &wants.queues {
        match store.catalog.id(name) {
            Some(id) => drop(found.insert(name.clone(), id)),
            None => unknown.push(name.as_str()),
        }
    }
    if unknown.is_empty() {
        return Ok(found);
    }
    for row in session.query(&FIND_QUEUES, &[&unknown]).await? {
        let mut cells = Cells::of(&row);
        let (name, id): (&str, i32) = (cells.take()?, cells.take()?);
        let name = QueueName::try_from(name)
            .map_err(|_| Fault::damaged("queue", i64::from(id), "its name is not one"))?;
        store.catalog.learn(name.clone(), id);
        found.insert(name, id);
    }
    Ok(found)
}

async fn find_expired(store: &PostgresStore, session: &Session, wants: &Wants) -> Result<Vec<JobId>, Fault> {
    if wants.rescues == 0 {
        return Ok(Vec::new());
    }
    // As many as other commands may end or extend first, and one more to tell whether there are more.
    let others: u32 = wants.jobs.values().sum();
    let most = i64::from(wants.rescues) + i64::from(others) + 1;
    let rows = session.query(&FIND_EXPIRED, &[&store.clock.instead(), &most]).await?;
    rows.iter().map(|row| job_id(Cells::of(row).take()?)).collect()
}
