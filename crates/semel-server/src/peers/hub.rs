//! Nodes in one process, for tests: they share a memory store, and what a shared store offers besides is here.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::shared::{
    Beat, Exposure, Heard, NODE_LOST, NodeId, NodeRecord, ROLE_SPAN, Shared, Sweep, Wakes,
};
use semel_store::{Store, StoreError};
use tokio::sync::mpsc;

/// What the nodes share.
pub(super) struct Hub {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: BTreeMap<NodeId, Timestamp>,
    beats: BTreeMap<NodeId, usize>,
    roles: BTreeMap<&'static str, (NodeId, Timestamp)>,
    ears: BTreeMap<NodeId, mpsc::UnboundedSender<Heard>>,
    deaf: Vec<NodeId>,
    told: usize,
    leases: BTreeMap<NodeId, Vec<QueueName>>,
    exposure: Option<Exposure>,
}

/// One node's way to the hub.
pub(super) struct Member {
    hub: Arc<Hub>,
    id: NodeId,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<Heard>>,
}

impl Hub {
    pub(super) fn over(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, state: Mutex::default() })
    }

    /// Another node, that hears the others.
    pub(super) fn join(self: &Arc<Self>, id: u16) -> Arc<Member> {
        let (ear, heard) = mpsc::unbounded_channel();
        ear.send(Heard::Hearing).unwrap();
        self.lock().ears.insert(NodeId(id), ear);
        Arc::new(Member { hub: self.clone(), id: NodeId(id), heard: tokio::sync::Mutex::new(heard) })
    }

    /// From now on the node hears nobody.
    pub(super) fn deafen(&self, id: u16) {
        let mut state = self.lock();
        state.deaf.push(NodeId(id));
        state.ears[&NodeId(id)].send(Heard::Deaf).unwrap();
    }

    /// The node has handed out leases that only it can settle.
    pub(super) fn leases(&self, id: u16, queue: &QueueName) {
        self.lock().leases.entry(NodeId(id)).or_default().push(queue.clone());
    }

    /// What was answered in this time may be missing.
    pub(super) fn expose(&self, exposure: Exposure) {
        self.lock().exposure = Some(exposure);
    }

    /// How often a node said that it is up.
    pub(super) fn beats(&self, id: u16) -> usize {
        self.lock().beats.get(&NodeId(id)).copied().unwrap_or_default()
    }

    /// How often anybody told anything.
    pub(super) fn told(&self) -> usize {
        self.lock().told
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn is_lost(&self, id: NodeId, now: Timestamp) -> bool {
        self.seen.get(&id).is_none_or(|at| now.since(*at) >= NODE_LOST)
    }

    /// Whether the role is this node's, now if not before.
    fn takes(&mut self, role: &'static str, id: NodeId, now: Timestamp) -> bool {
        let free = self.roles.get(role).is_none_or(|(node, until)| *node == id || *until <= now);
        if free {
            self.roles.insert(role, (id, now.plus(ROLE_SPAN)));
        }
        free
    }
}

#[async_trait]
impl Shared for Member {
    fn id(&self) -> NodeId {
        self.id
    }

    async fn beat(&self, roles: &[&'static str]) -> Result<Beat, StoreError> {
        let now = self.hub.store.now();
        let mut state = self.hub.lock();
        state.seen.insert(self.id, now);
        *state.beats.entry(self.id).or_default() += 1;
        let up: Vec<_> = state.seen.keys().copied().filter(|id| !state.is_lost(*id, now)).collect();
        let lost = state.leases.keys().copied().filter(|id| !up.contains(id)).collect();
        let held = roles.iter().copied().filter(|role| state.takes(role, self.id, now)).collect();
        Ok(Beat { others: up.len() - 1, lost, held })
    }

    async fn leave_roles(&self) -> Result<(), StoreError> {
        self.hub.lock().roles.retain(|_, (node, _)| *node != self.id);
        Ok(())
    }

    async fn take_back(&self, node: NodeId) -> Result<Vec<QueueName>, StoreError> {
        Ok(self.hub.lock().leases.remove(&node).unwrap_or_default())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let now = self.hub.store.now();
        let state = self.hub.lock();
        let record = |(id, seen_at): (&NodeId, &Timestamp)| NodeRecord {
            id: *id,
            name: format!("node-{id}"),
            address: String::new(),
            version: "1".into(),
            started_at: *seen_at,
            seen_at: *seen_at,
            lost: state.is_lost(*id, now),
            roles: state
                .roles
                .iter()
                .filter(|(_, (node, _))| node == id)
                .map(|(role, _)| (*role).into())
                .collect(),
        };
        Ok(state.seen.iter().map(record).collect())
    }

    fn exposure(&self) -> Option<Exposure> {
        self.hub.lock().exposure
    }

    async fn tell(&self, wakes: Wakes) -> Result<(), StoreError> {
        let mut state = self.hub.lock();
        state.told += 1;
        for (id, ear) in &state.ears {
            if *id != self.id && !state.deaf.contains(id) {
                // A node that is gone hears nothing.
                drop(ear.send(Heard::Wakes(wakes.clone())));
            }
        }
        Ok(())
    }

    async fn hear(&self) -> Heard {
        self.heard.lock().await.recv().await.expect("the hub keeps the other end")
    }

    async fn sweep(&self) -> Result<Sweep, StoreError> {
        let (mut ready, mut settings) = (Vec::new(), DefaultHasher::new());
        for queue in self.hub.store.queues().await? {
            format!("{:?}", queue.config).hash(&mut settings);
            if self.hub.store.next_due(&queue.name).await?.is_some_and(|due| due <= self.hub.store.now()) {
                ready.push(queue.name);
            }
        }
        Ok(Sweep { ready, settings: settings.finish() })
    }
}
