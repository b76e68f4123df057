//! The other nodes: being seen, roles that one node has for all, and how nodes wake each other.
//!
//! Nothing here decides about a job. Wake-ups go by NOTIFY, sent by a statement of its own after the commit: inside the
//! transaction it would make every commit queue for one lock. What is lost on the way is found by looking ([`sweep`]).

mod beat;
mod hush;
mod inbox;
mod list;
mod listen;
mod note;
mod seat;
mod sweep;
mod tell;

use async_trait::async_trait;
use semel_core::name::QueueName;
use semel_store::StoreError;
use semel_store::shared::{Beat, Exposure, Heard, NodeId, NodeRecord, Shared, Sweep, Wakes};

pub(crate) use hush::Hush;
pub use list::{Roster, nodes};
pub(crate) use listen::Ear;
pub(crate) use seat::Seat;

use crate::store::PostgresStore;

/// The channel on which nodes, and the SQL functions, wake each other. Channels belong to a database, as a store does.
const CHANNEL: &str = "semel";

#[async_trait]
impl Shared for PostgresStore {
    fn id(&self) -> NodeId {
        list::node_id(self.node())
    }

    async fn beat(&self, roles: &[&'static str]) -> Result<Beat, StoreError> {
        self.be_seen(roles).await
    }

    async fn leave_roles(&self) -> Result<(), StoreError> {
        self.give_up_roles().await
    }

    async fn take_back(&self, node: NodeId) -> Result<Vec<QueueName>, StoreError> {
        self.bury(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        self.list_nodes().await
    }

    fn exposure(&self) -> Option<Exposure> {
        self.pool.exposure()
    }

    async fn tell(&self, wakes: Wakes) -> Result<(), StoreError> {
        self.notify(wakes).await
    }

    async fn hear(&self) -> Heard {
        self.ear.hear().await
    }

    async fn sweep(&self) -> Result<Sweep, StoreError> {
        self.sweep_queues().await
    }
}
