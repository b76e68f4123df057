//! What a store that many nodes share offers besides [`Store`](crate::Store): how nodes find and tell each other.
//!
//! A node knows the others only through this. Nothing of it decides anything about a job: a wake-up that is lost costs time,
//! a role that two nodes hold for a moment costs work, and what both do is done once, because commands say so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use semel_core::ids::JobId;
use semel_core::lease::Delivery;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

use crate::error::StoreError;

/// A node that has not been seen for this long is taken to be dead: three heartbeats are missing.
pub const NODE_LOST: Millis = Millis::from_secs(15);

/// How long a role stays with its node after the last heartbeat. As long as it takes to be lost, so that whoever takes the
/// role over knows that its holder is gone.
pub const ROLE_SPAN: Millis = NODE_LOST;

/// The number of a node: no other node that is up has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node, as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number.
    pub id: NodeId,
    /// What people call it.
    pub name: String,
    /// Where it is reached; empty if nobody said.
    pub address: String,
    /// The version it runs.
    pub version: String,
    /// When it joined.
    pub started_at: Timestamp,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// Whether it is taken to be dead.
    pub lost: bool,
    /// The roles it holds, by name.
    pub roles: Vec<String>,
}

/// A time of which the store may lack what it answered: a server took over that had not heard of everything, or a backup was
/// restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposure {
    /// Up to here nothing is missing.
    pub since: Timestamp,
    /// From here on nothing is missing.
    pub until: Timestamp,
    /// The newest job that the store had then.
    pub newest: JobId,
}

impl Exposure {
    /// Whether a job may have been delivered in that time, and done, and the store does not know it: the store had the job
    /// when it went on, and the job's time had come. It stays so until the job ends, however often it is delivered. Once it
    /// has ended it is not delivered, unless somebody replays it, and then the same question is open.
    pub fn covers(&self, delivery: &Delivery) -> bool {
        delivery.id <= self.newest && delivery.spec.run_at <= self.until
    }
}

/// What a node hears when it says that it is up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beat {
    /// How many others are up.
    pub others: usize,
    /// Nodes that died and whose leases nobody has taken back yet.
    pub lost: Vec<NodeId>,
    /// Of the roles that were asked for, those that this node holds for [`ROLE_SPAN`] from now.
    pub held: Vec<&'static str>,
}

/// What nodes tell each other: where to look, and who is busy. It never says what is to be found there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wakes {
    /// Queues that may have something for a worker, and for how many at most.
    pub ready: BTreeMap<QueueName, u32>,
    /// Queues that were made, changed, paused or resumed.
    pub changed: BTreeSet<QueueName>,
    /// Queues that were taken away.
    pub gone: BTreeSet<QueueName>,
    /// Whether an API key was made or taken away.
    pub api_keys: bool,
    /// Whether a schedule or a replay task was made, changed or taken away.
    pub tasks: bool,
    /// Nodes that commit often.
    pub busy: BTreeSet<NodeId>,
    /// Whether there was more than could be told: look at everything.
    pub everything: bool,
}

impl Wakes {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another says.
    pub fn merge(&mut self, other: Self) {
        for (queue, jobs) in other.ready {
            let so_far = self.ready.entry(queue).or_default();
            *so_far = so_far.saturating_add(jobs);
        }
        self.changed.extend(other.changed);
        self.gone.extend(other.gone);
        self.api_keys |= other.api_keys;
        self.tasks |= other.tasks;
        self.busy.extend(other.busy);
        self.everything |= other.everything;
    }
}

/// What a node hears of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Where to look.
    Wakes(Wakes),
    /// From now on it hears the others. What was told before may have been missed.
    Hearing,
    /// From now on it hears nobody and has to look for itself.
    Deaf,
}

/// What a look at all queues brings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sweep {
    /// Queues that have a job which is ready, as far as one can tell without their gates.
    pub ready: Vec<QueueName>,
    /// Differs if the settings of any queue do, or if there are other queues.
    pub settings: u64,
}

/// A store that other nodes use, too. The words MUST and MAY are meant as in [`Store`](crate::Store).
#[async_trait]
pub trait Shared: Send + Sync + 'static {
    /// This node's number. It MAY change, after the others had given this node up.
    fn id(&self) -> NodeId;

    /// Says that this node is up, takes or keeps the roles it asks for, and hears who else is up.
    ///
    /// A role that another node holds MUST stay with it until [`ROLE_SPAN`] after that node's last heartbeat, by the store's
    /// clock, or until it leaves it. Of several nodes that ask for a free role, one gets it.
    async fn beat(&self, roles: &[&'static str]) -> Result<Beat, StoreError>;

    /// Gives up every role of this node, so that others need not wait for their end.
    async fn leave_roles(&self) -> Result<(), StoreError>;

    /// Ends the leases of a dead node that only that node could have settled: deliveries by webhook that were not answered.
    /// Their jobs MUST be ready again at once, and no attempt is burned. Leases of workers MUST stay: any node can settle
    /// them. Returns the queues in which something may be ready now.
    ///
    /// Precondition: a heartbeat said that the node is lost. If it was not, its tokens are stale all the same, and what it
    /// was delivering is delivered again.
    async fn take_back(&self, node: NodeId) -> Result<Vec<QueueName>, StoreError>;

    /// Every node, by number, with those that died not long ago.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError>;

    /// The latest time of which this store may lack what it answered; nothing, if there never was one.
    ///
    /// After a lease whose jobs it [covers](Exposure::covers), it MUST be known here. A store that cannot lose what it
    /// answered, or cannot tell, says nothing.
    fn exposure(&self) -> Option<Exposure>;

    /// Tells the others where to look, and that this node is busy: no other is spoken for. It MAY be lost on the way, and where
    /// nobody waits it MAY be left out.
    async fn tell(&self, wakes: Wakes) -> Result<(), StoreError>;

    /// Waits for what others tell. The first answer MUST be [`Heard::Hearing`] or [`Heard::Deaf`]. While it hears, what was
    /// told MUST be heard, or a later answer MUST be `Deaf` or `Hearing`. Dropping the future loses nothing.
    async fn hear(&self) -> Heard;

    /// Looks at all queues at once.
    async fn sweep(&self) -> Result<Sweep, StoreError>;
}
