//! How a node joins the others: it takes a free lane for the ids it will make, and leaves it when it goes.

use semel_core::ids::IdGenerator;
use semel_store::StoreError;
use tokio_postgres::types::Type;

use crate::clock::{StoreClock, database_now};
use crate::fault::Fault;
use crate::import::Marker;
use crate::locks;
use crate::options::Options;
use crate::row::{Cells, job_id};
use crate::session::{Session, Sql};

/// A node's place among the others.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its number: the lane of its ids.
    pub(crate) node: i32,
    /// When it joined.
    pub(crate) joined_at: i64,
    /// What makes its ids.
    pub(crate) ids: IdGenerator,
}

static LOCK: Sql = Sql { text: "SELECT pg_advisory_xact_lock($1, 0)", types: &[Type::INT4] };

/// The smallest lane that no node has.
static TAKE: Sql = Sql {
    text: concat!(
        "INSERT INTO semel.node (id, name, address, version, started_at, seen_at)
         SELECT lane, $1, $2, $3, now, now
         FROM (SELECT coalesce($4, ",
        database_now!(),
        ") AS now) AS clock,
              LATERAL (SELECT min(lane) AS lane
                       FROM generate_series(0, 1022) AS lane
                       WHERE NOT EXISTS (SELECT FROM semel.node WHERE id = lane)) AS free
         WHERE lane IS NOT NULL
         RETURNING id, started_at"
    ),
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8],
};

/// The highest id there ever was, dropped jobs' included.
static HIGHEST: Sql = Sql {
    text: "SELECT greatest((SELECT max(id) FROM semel.job), (SELECT max(last_id) FROM semel.lane))",
    types: &[],
};

const FULL: &str = "1023 nodes are registered, and there is no place for another: stop one, or remove from semel.node \
                    those that are gone";

static LEAVE: Sql = Sql {
    text: "WITH roles AS (DELETE FROM semel.role WHERE node = $1) DELETE FROM semel.node WHERE id = $1",
    types: &[Type::INT4],
};

/// Takes a place. The clock learns the database's time on the way.
pub(crate) async fn join(
    session: &Session,
    clock: &StoreClock,
    options: &Options,
) -> Result<Place, StoreError> {
    let taken = take(session, clock, options).await.map_err(|fault| crate::survey::not_opened(&fault))?;
    taken.map_err(StoreError::Open)
}

/// Takes another place, after this node's was given up by the others.
pub(crate) async fn again(session: &Session, clock: &StoreClock, options: &Options) -> Result<Place, Fault> {
    take(session, clock, options).await?.map_err(Fault::Unreachable)
}

/// Takes a place, or says why there is none.
async fn take(
    session: &Session,
    clock: &StoreClock,
    options: &Options,
) -> Result<Result<Place, String>, Fault> {
    session.begin().await?;
    session.query(&LOCK, &[&locks::JOIN]).await?;
    if let Some(refusal) = Marker::read(session).await?.and_then(|marker| marker.refusal()) {
        session.rollback().await?;
        return Ok(Err(refusal));
    }
    let version = env!("CARGO_PKG_VERSION");
    let params: [crate::session::Param<'_>; 4] =
        [&options.node_name, &options.node_address, &version, &clock.instead()];
    let row = session.query_opt(&TAKE, &params).await?;
    let highest: Option<i64> = Cells::of(&session.query_one(&HIGHEST, &[]).await?).take()?;
    session.commit().await?;
    let Some(row) = row else { return Ok(Err(FULL.to_owned())) };
    let mut cells = Cells::of(&row);
    let node: i32 = cells.take()?;
    let joined_at = cells.take()?;
    clock.decides(joined_at);
    let mut ids = IdGenerator::new(lane_of(node)?);
    if let Some(highest) = highest {
        ids.resume_above(job_id(highest)?);
    }
    Ok(Ok(Place { node, joined_at, ids }))
}

fn lane_of(node: i32) -> Result<u16, Fault> {
    u16::try_from(node).map_err(|_| Fault::damaged("node", node.into(), "its number is no lane"))
}

/// Gives the place back. The node's leases stay as they are: whoever has one settles it through another node.
pub(crate) async fn leave(session: &Session, node: i32) -> Result<(), Fault> {
    session.execute(&LEAVE, &[&node]).await.map(drop)
}
