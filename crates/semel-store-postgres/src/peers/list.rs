//! The list of nodes.

use semel_store::StoreError;
use semel_store::shared::{Exposure, NODE_LOST, NodeId, NodeRecord};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::connect::Maker;
use crate::fault::Fault;
use crate::options::Options;
use crate::row::{Cells, time};
use crate::session::{Link, Sql};
use crate::store::PostgresStore;
use crate::{migrate, reign, survey};

static NODES: Sql = Sql {
    text: concat!(
        "SELECT n.id, n.name, n.address, n.version, n.started_at, n.seen_at, n.seen_at <= clock.now - $2,
                ARRAY (SELECT r.name FROM semel.role r WHERE r.node = n.id AND r.until > clock.now ORDER BY r.name)
           FROM semel.node n, (SELECT coalesce($1, ",
        database_now!(),
        ") AS now) AS clock
          ORDER BY n.id"
    ),
    types: &[Type::INT8, Type::INT8],
};

impl PostgresStore {
    /// All nodes, by number.
    pub(super) async fn list_nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let read = async {
            let session = self.pool.session().await?;
            list(&session, self.clock.instead()).await
        };
        read.await.map_err(|fault: Fault| fault.nothing_done())
    }
}

/// Who shares a store, and what the store may lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// The nodes, by number, with those that died not long ago.
    pub nodes: Vec<NodeRecord>,
    /// The latest time of which the store may lack what it answered.
    pub exposure: Option<Exposure>,
}

/// The nodes of the store in the database at `url`, for somebody who is not one of them.
pub async fn nodes(url: &str) -> Result<Roster, StoreError> {
    migrate::require_current(url).await?;
    let options = Options { node_name: "nodes".into(), ..Options::default() };
    let maker = Maker::new(url, &options)?;
    let listed = async {
        let link = maker.connect().await?;
        Ok(Roster { nodes: list(&link, None).await?, exposure: reign::exposure(&link).await? })
    };
    listed.await.map_err(|fault: Fault| survey::not_opened(&fault))
}

async fn list(link: &Link, now: Option<i64>) -> Result<Vec<NodeRecord>, Fault> {
    let lost_after = i64::try_from(NODE_LOST.millis()).unwrap_or(i64::MAX);
    link.query(&NODES, &[&now, &lost_after]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<NodeRecord, Fault> {
    let mut cells = Cells::of(row);
    Ok(NodeRecord {
        id: node_id(cells.take()?),
        name: cells.take()?,
        address: cells.take()?,
        version: cells.take()?,
        started_at: time(cells.take()?),
        seen_at: time(cells.take()?),
        lost: cells.take()?,
        roles: cells.take()?,
    })
}

/// The number of a node; the table allows no other than fit.
pub(super) fn node_id(number: i32) -> NodeId {
    NodeId(u16::try_from(number).unwrap_or(u16::MAX))
}
