//! What becomes of the leases of a node that is gone.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::gate::{Gate, Signal};
use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::queue::{Delivery, QueueConfig};
use semel_core::time::Timestamp;
use semel_store::StoreError;
use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::locks;
use crate::row::{Cells, QueueRow, gate_text, is_free, job_id, queue_columns};
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

/// The queues of which a node has jobs out, or all of them if no node is named, locked in order as a batch would do it.
static LOCK_QUEUES: Sql = Sql {
    text: concat!(
        "WITH sorted AS MATERIALIZED (
             SELECT q.id
               FROM semel.queue q
              WHERE NOT q.deleted
                AND ($1 IS NULL
                     OR EXISTS (SELECT FROM semel.live l
                                 WHERE l.queue = q.id AND l.token IS NOT NULL AND l.node = $1))
              ORDER BY q.id
         ),
         locked AS MATERIALIZED (
             SELECT id, pg_advisory_xact_lock($2, id) AS held FROM sorted
         )
         SELECT set_config('semel.queues', coalesce(array_agg(id), '{}')::text, true), ",
        database_now!(),
        " FROM locked"
    ),
    types: &[Type::INT4, Type::INT4],
};

static QUEUES: Sql = Sql {
    text: concat!(
        "SELECT ",
        queue_columns!(),
        " FROM semel.queue q WHERE q.id = ANY (current_setting('semel.queues')::int[])"
    ),
    types: &[],
};

/// Ends leases without burning an attempt: the job is as it was before it went out.
static TAKE_BACK: Sql = Sql {
    text: "UPDATE semel.live
              SET token = NULL, since = NULL, deadline = NULL, received = false, node = NULL
            WHERE queue = ANY ($1) AND token IS NOT NULL AND ($2 IS NULL OR node = $2 AND NOT received)
           RETURNING id, queue",
    types: &[Type::INT4_ARRAY, Type::INT4],
};

static SET_GATES: Sql = Sql {
    text: "UPDATE semel.queue q
              SET gate = u.gate, free = u.free
             FROM unnest($1, $2, $3) AS u (id, gate, free)
            WHERE q.id = u.id",
    types: &[Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::BOOL_ARRAY],
};

impl PostgresStore {
    /// Ends leases of a node that is gone, without burning an attempt, and says in which queues: deliveries to webhooks
    /// whose answer only that node waited for. A worker that pulled its job, or has said that it received it, settles
    /// through another node, or its lease runs out.
    ///
    /// A token of such a lease settles nothing from then on. The caller makes sure that the node is gone, or it goes on
    /// delivering what others deliver too.
    pub(crate) async fn take_back_from(&self, node: i32) -> Result<Vec<QueueName>, StoreError> {
        self.end_leases(Some(node)).await
    }

    /// Ends every lease there is, without burning an attempt, and has every gate forget its probe and what was used of its
    /// rate: for a store whose nodes were all stopped, and whose past is not what it was (a restored backup, a test). Says in
    /// which queues there were any.
    pub async fn forget_deliveries(&self) -> Result<Vec<QueueName>, StoreError> {
        self.end_leases(None).await
    }

    async fn end_leases(&self, node: Option<i32>) -> Result<Vec<QueueName>, StoreError> {
        let ended = async {
            let session = self.pool.session().await?;
            let ended = self.end_leases_in(&session, node).await;
            if ended.is_err() {
                // Should this fail too the connection does not go back to the pool, and its end is that of the transaction.
                session.rollback().await.ok();
            }
            ended
        };
        ended.await.map_err(|fault: Fault| fault.after_commit())
    }

    async fn end_leases_in(&self, session: &Session, node: Option<i32>) -> Result<Vec<QueueName>, Fault> {
        let (queues, now) = self.lock_queues_of(session, node).await?;
        let concerned = |row: &&QueueRow| node.is_none() || is_push(&row.record.config);
        let numbers: Vec<i32> = queues.iter().filter(concerned).map(|row| row.id).collect();
        let rows = session.query(&TAKE_BACK, &[&numbers, &node]).await?;
        let mut lost: BTreeMap<i32, BTreeSet<JobId>> = BTreeMap::new();
        for row in &rows {
            let mut cells = Cells::of(row);
            let (id, queue): (i64, i32) = (cells.take()?, cells.take()?);
            lost.entry(queue).or_default().insert(job_id(id)?);
        }
        let mut gates = Gates::default();
        for row in &queues {
            let lost = lost.get(&row.id).into_iter().flatten();
            gates.note(row, |gate| match node {
                Some(_) => lost.for_each(|id| gate.settled(&row.record.config, *id, Signal::Lost, now)),
                None => gate.restarted(),
            });
        }
        gates.save_and_commit(session).await?;
        lost.keys().for_each(|queue| self.marks.forget(*queue));
        let concerned = queues.into_iter().filter(|row| lost.contains_key(&row.id));
        Ok(concerned.map(|row| row.record.name).collect())
    }

    async fn lock_queues_of(
        &self,
        session: &Session,
        node: Option<i32>,
    ) -> Result<(Vec<QueueRow>, Timestamp), Fault> {
        let mut flight = Flight::on(session);
        flight.begin();
        let locked = flight.query(&LOCK_QUEUES, vec![&node, &locks::QUEUE]);
        let queues = flight.query(&QUEUES, vec![]);
        let landed = flight.land().await?;
        let row = landed.rows(locked).first();
        let mut cells = Cells::of(row.ok_or_else(|| Fault::Broken("an aggregate gave no row".into()))?);
        cells.take::<&str>()?;
        let now = self.clock.decides(cells.take()?);
        let queues = landed.rows(queues).iter().map(|row| QueueRow::read(&mut Cells::of(row)));
        Ok((queues.collect::<Result<_, _>>()?, now))
    }
}

fn is_push(config: &QueueConfig) -> bool {
    matches!(config.delivery, Delivery::Push(_))
}

/// Gates that changed.
#[derive(Default)]
struct Gates {
    ids: Vec<i32>,
    texts: Vec<String>,
    free: Vec<bool>,
}

impl Gates {
    fn note(&mut self, row: &QueueRow, change: impl FnOnce(&mut Gate)) {
        let mut gate = row.record.gate.clone();
        change(&mut gate);
        if gate != row.record.gate {
            self.ids.push(row.id);
            self.texts.push(gate_text(&gate));
            self.free.push(is_free(&row.record.config, &gate));
        }
    }

    async fn save_and_commit(&self, session: &Session) -> Result<(), Fault> {
        let mut flight = Flight::on(session);
        if !self.ids.is_empty() {
            flight.query(&SET_GATES, vec![&self.ids, &self.texts, &self.free]);
        }
        flight.commit();
        flight.land().await.map(drop)
    }
}
