//! The transaction of a batch: its connection, its locks, and the time it decides by.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::{Answer, Command};
use tokio_postgres::types::Type;

use super::Setback;
use super::lent::Lent;
use super::load::Loaded;
use super::wants::Wants;
use super::writes::Writes;
use crate::clock::database_now;
use crate::fault::Fault;
use crate::flight::{Flight, Landed, Seat};
use crate::row::{Cells, QueueRow, job_id, sql_id};
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

/// Locks the queues that are named and those of the jobs that are named, and reads them.
static LOCK_QUEUES: Sql = Sql {
    text: "SELECT * FROM semel.lock_queues($1, $2, $3)",
    types: &[Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT4_ARRAY],
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
    /// The queues of the jobs that it puts where leases look for them, and since when those are due.
    appears: Vec<(i32, i64)>,
}

/// What the locks are asked for with.
#[derive(Debug, Default)]
struct Asked {
    queues: Vec<i32>,
    jobs: Vec<i64>,
    alone: Vec<i32>,
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
        let (made, alone, appears) = (Vec::new(), BTreeSet::new(), Vec::new());
        Ok(Self { store, session, names, expired, made, asked, alone, now: None, lent: None, appears })
    }

    /// A flight on this transaction's connection. The first one begins the transaction and takes its locks.
    pub(crate) fn flight(&self) -> (Flight<'_>, Option<Seat>) {
        let mut flight = Flight::on(self.session);
        if self.now.is_some() {
            return (flight, None);
        }
        flight.begin();
        let Asked { queues, jobs, alone } = &self.asked;
        let locks = flight.query(&LOCK_QUEUES, vec![queues, jobs, alone]);
        (flight, Some(locks))
    }

    /// Notes what the first flight found, and returns the queues that it locked; nothing if this was not the first.
    pub(crate) fn landed(
        &mut self,
        landed: &Landed,
        locks: Option<Seat>,
    ) -> Result<Option<Vec<QueueRow>>, Fault> {
        let Some(locks) = locks else { return Ok(None) };
        let mut queues = Vec::new();
        for row in landed.rows(locks) {
            let mut cells = Cells::of(row);
            self.now = Some(self.store.clock.decides(cells.take()?));
            let Some(alone) = cells.take::<Option<bool>>()? else { continue };
            let queue = QueueRow::read(&mut cells)?;
            if alone {
                self.alone.insert(queue.id);
            }
            queues.push(queue);
        }
        Ok(Some(queues))
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

    /// Applies commands to what was loaded.
    pub(super) fn decide(&mut self, loaded: &mut Loaded, commands: &[Command]) -> Vec<Answer> {
        let (answers, lent) = Lent::decide(self.store, &mut loaded.set, commands, loaded.highest, self.now());
        self.lent = Some(match self.lent.take() {
            Some(before) => before.and(lent),
            None => lent,
        });
        answers
    }

    /// Takes down what rows that were sent mean for leases.
    pub(super) fn sent(&mut self, writes: &Writes) {
        self.appears.extend(writes.appears());
    }

    /// Takes down that jobs of a queue may stand where leases look for them.
    pub(super) fn opens(&mut self, queue: i32) {
        self.appears.push((queue, i64::MIN));
    }

    /// The transaction is committed.
    pub(super) fn committed(self) {
        let now = self.store.clock.now();
        self.appears.into_iter().for_each(|(queue, due)| self.store.marks.appeared(queue, due, now));
    }

    /// Undoes the transaction. The ids it made are made again, unless others were made since.
    pub(super) async fn undo(self) {
        if let Some(lent) = self.lent {
            lent.give_back(self.store);
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
