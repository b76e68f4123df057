//! The leases that are out. They live in memory: a crash forgets them, and what was in flight is delivered again.

use std::collections::{BTreeSet, HashMap};

use semel_core::ids::{JobId, Token};
use semel_core::job::{JobSpec, Overrides, Progress};
use semel_core::lease::Lease;
use semel_core::name::Group;
use semel_core::time::Timestamp;

/// What the engine needs to know of a job to move it: all but its payload.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    pub(crate) id: JobId,
    pub(crate) queue: u32,
    /// Position among priorities: 0 is the highest.
    pub(crate) rank: u8,
    /// The group that gates it.
    pub(crate) gate: Option<Group>,
    pub(crate) overrides: Option<Box<Overrides>>,
    pub(crate) place: Place,
}

/// Where a pending job waits, which is where it has to be taken out when it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its queue's backlog, with no row besides `job`.
    Backlog,
    /// In `ordered` under this time; `live` says whether it has a row there.
    Ordered { due: Timestamp, live: bool },
    /// Behind its group; `live` says whether it has a row there.
    Waiting { live: bool },
}

impl Stub {
    pub(crate) fn new(id: JobId, queue: u32, spec: &JobSpec, place: Place) -> Self {
        Self {
            id,
            queue,
            rank: rank_of(spec),
            gate: if spec.gated { spec.group.clone() } else { None },
            overrides: (!spec.overrides.is_empty()).then(|| Box::new(spec.overrides.clone())),
            place,
        }
    }
}

/// The position of a job's priority: higher priorities come first, and an unsigned byte sorts the same in SQL.
pub(crate) fn rank_of(spec: &JobSpec) -> u8 {
    u8::try_from(100 - i16::from(spec.priority.get())).expect("a priority is -100 to 100")
}

/// The rank of priority 0, where plain jobs are.
pub(crate) const PLAIN_RANK: u8 = 100;

/// One lease.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) stub: Stub,
    pub(crate) progress: Progress,
}

/// All leases, by job and by the time they run out.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: HashMap<JobId, Held>,
    by_deadline: BTreeSet<(Timestamp, JobId)>,
}

impl Leases {
    pub(crate) fn get(&self, id: JobId) -> Option<&Held> {
        self.by_id.get(&id)
    }

    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn insert(&mut self, held: Held) {
        self.by_deadline.insert((held.lease.deadline, held.stub.id));
        self.by_id.insert(held.stub.id, held);
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Held> {
        let held = self.by_id.remove(&id)?;
        self.by_deadline.remove(&(held.lease.deadline, id));
        Some(held)
    }

    /// Changes a lease; its deadline may move.
    pub(crate) fn change(&mut self, id: JobId, change: impl FnOnce(&mut Lease)) {
        if let Some(held) = self.by_id.get_mut(&id) {
            self.by_deadline.remove(&(held.lease.deadline, id));
            change(&mut held.lease);
            self.by_deadline.insert((held.lease.deadline, id));
        }
    }

    /// Leases that have run out, earliest first.
    pub(crate) fn expired(&self, now: Timestamp, limit: usize) -> Vec<JobId> {
        self.by_deadline
            .iter()
            .take_while(|(deadline, _)| *deadline <= now)
            .take(limit)
            .map(|&(_, id)| id)
            .collect()
    }

    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.by_deadline.first().map(|&(deadline, _)| deadline)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.by_id.values()
    }
}

/// Hands out tokens of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct Tokens(Token);

impl Tokens {
    pub(crate) fn of_epoch(epoch: u32) -> Self {
        Self(Token::first(epoch))
    }

    pub(crate) fn next(&mut self) -> Token {
        self.0 = self.0.next();
        self.0
    }
}
