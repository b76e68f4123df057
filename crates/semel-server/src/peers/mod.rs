//! The other nodes of a store that many share: being seen, hearing and telling, and who does what for all.
//!
//! ```text
//! Heralded --> news.outbox --(tell)--> the others --(hear)--> bells, keyring, dispatchers
//!                                                   sweep --> the same, for what was not heard
//! crowd --> this node commits often; how many others do, for the size of commits
//! beat --> this node is up; roles it holds; nodes that died, whose leases are taken back
//! ```
//!
//! A server on a store of its own has no peers: it holds every role, and nothing of this runs.

mod beat;
mod crowd;
mod hear;
#[cfg(test)]
mod hub;
mod roles;
mod tell;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::lease::Delivery;
use semel_core::time::Timestamp;
use semel_store::StoreError;
use semel_store::shared::{Exposure, NodeId, NodeRecord, Shared};
use tokio::task::JoinHandle;

use self::crowd::Crowd;
use self::roles::Held;
use crate::service::Service;
use crate::stop::{self, Stopper};

/// How often dispatchers and long polls look by themselves on a shared store. The sweep looks for all of them at once.
pub(crate) const POLL: Duration = Duration::from_secs(600);

/// How often a node does what keeps it in touch with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How often it says that it is up. Three that are missing are taken for a death.
    pub beat: Duration,
    /// How often it looks at all queues while it hears the others.
    pub sweep: Duration,
    /// How often it looks at all queues while it does not.
    pub sweep_deaf: Duration,
    /// How long it gathers before it tells the others more. What comes after a quiet while is told at once.
    pub gather: Duration,
    /// How often it looks whether it commits often, and how many others do.
    pub crowd: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(5),
            sweep: Duration::from_secs(15),
            sweep_deaf: Duration::from_secs(1),
            gather: Duration::from_millis(20),
            crowd: Duration::from_millis(100),
        }
    }
}

/// What this node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// By people.
    pub name: String,
    /// By whoever wants to reach it; empty if nobody said.
    pub address: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "semel".into(), address: String::new() }
    }
}

/// The other nodes, as the rest of the server sees them.
pub struct Peers {
    shared: Option<Arc<dyn Shared>>,
    held: Held,
    crowd: Crowd,
    started_at: Timestamp,
}

impl Peers {
    /// The nodes that share this store; none if it is this server's own.
    pub(crate) fn new(shared: Option<Arc<dyn Shared>>, started_at: Timestamp) -> Self {
        let held = Held::new(shared.is_none());
        Self { shared, held, crowd: Crowd::default(), started_at }
    }

    /// Whether other nodes may use this store, too.
    pub fn may_be_there(&self) -> bool {
        self.shared.is_some()
    }

    /// The roles that one node has for all.
    pub(crate) fn roles(&self) -> &Held {
        &self.held
    }

    /// The latest time of which the store may lack what it answered.
    pub(crate) fn exposure(&self) -> Option<Exposure> {
        self.shared.as_ref()?.exposure()
    }

    /// Whether a job that was leased just now may have been done before, without the store's knowing.
    pub(crate) fn possibly_applied(&self, delivery: &Delivery) -> bool {
        self.exposure().is_some_and(|exposure| exposure.covers(delivery))
    }

    /// Every node, and the number of this one.
    pub(crate) async fn nodes(&self, service: &Service) -> Result<(NodeId, Vec<NodeRecord>), StoreError> {
        match &self.shared {
            Some(shared) => Ok((shared.id(), shared.nodes().await?)),
            None => Ok((NodeId(0), vec![self.alone(service)])),
        }
    }

    fn alone(&self, service: &Service) -> NodeRecord {
        let Identity { name, address } = service.options.identity.clone();
        NodeRecord {
            id: NodeId(0),
            name,
            address,
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: self.started_at,
            seen_at: service.store.now(),
            lost: false,
            roles: self.held.wanted().into_iter().map(str::to_owned).collect(),
        }
    }

    /// Begins to be a node among others. Start upkeep before, so that the first heartbeat asks for its roles.
    pub(crate) fn start(service: &Arc<Service>) -> Tasks {
        let (stopper, stop) = stop::pair();
        let mut running = Vec::new();
        if let Some(shared) = &service.peers.shared {
            let of = || (service.clone(), shared.clone(), stop.clone());
            let (one, two, three, four) = (of(), of(), of(), of());
            running.push(("beat", tokio::spawn(beat::run(one.0, one.1, one.2))));
            running.push(("hear", tokio::spawn(hear::run(two.0, two.1, two.2))));
            running.push(("tell", tokio::spawn(tell::run(three.0, three.1, three.2))));
            running.push(("crowd", tokio::spawn(crowd::run(four.0, four.1, four.2))));
        }
        Tasks { stopper, running }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("held", &self.held).finish_non_exhaustive()
    }
}

/// What runs to be a node among others. It outlives the wish to stop: while deliveries end, this node must be seen, or its
/// leases are taken back.
#[derive(Debug)]
pub(crate) struct Tasks {
    stopper: Stopper,
    running: Vec<(&'static str, JoinHandle<()>)>,
}

impl Tasks {
    /// Tells the others what is left to tell, and ends.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        for (name, task) in self.running {
            if let Err(error) = task.await {
                tracing::error!(task = name, %error, "what keeps touch with other nodes ended in a panic");
            }
        }
    }
}
