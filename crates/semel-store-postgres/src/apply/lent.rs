//! Deciding makes ids, and what is undone gives them back.

use semel_core::ids::{IdGenerator, JobId};
use semel_core::time::Timestamp;
use semel_store::working::WorkingSet;
use semel_store::{Answer, Command};

use super::wants::bounded;
use crate::store::PostgresStore;

/// The generator of ids before a transaction used it, and after.
#[derive(Debug)]
pub(super) struct Lent {
    before: IdGenerator,
    after: IdGenerator,
}

impl Lent {
    /// Applies commands to a working set. All ids that are made are above `highest`.
    pub(super) fn decide(
        store: &PostgresStore,
        set: &mut WorkingSet,
        commands: &[Command],
        highest: Option<JobId>,
        now: Timestamp,
    ) -> (Vec<Answer>, Self) {
        Self::make(store, |ids| {
            highest.iter().for_each(|id| ids.resume_above(*id));
            set.apply(commands.iter().map(bounded), ids, now)
        })
    }

    /// Makes ids. Two batches never do so at the same time.
    pub(super) fn make<T>(store: &PostgresStore, make: impl FnOnce(&mut IdGenerator) -> T) -> (T, Self) {
        let mut ids = store.ids.lock().expect("the lock is never held across a panic");
        let before = ids.clone();
        let made = make(&mut ids);
        let after = ids.clone();
        (made, Self { before, after })
    }

    /// The same transaction made more of them.
    pub(super) fn and(self, later: Self) -> Self {
        Self { before: self.before, after: later.after }
    }

    /// The ids are made again, unless others were made since.
    pub(super) fn give_back(self, store: &PostgresStore) {
        let mut ids = store.ids.lock().expect("the lock is never held across a panic");
        if *ids == self.after {
            *ids = self.before;
        }
    }
}
