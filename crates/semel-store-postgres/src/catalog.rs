//! What this node remembers of the queues: the number that each name stands for, and the rules made of its settings.
//!
//! It is only a memory. Whoever uses a number checks it against the row, under the queue's lock, and forgets it here if it
//! was wrong; rules are kept with the version of the row they were made of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use semel_core::name::QueueName;
use semel_core::queue::{QueueConfig, Rules};
use semel_store::working::QueueId;

use crate::fault::Fault;

/// The memory of one node.
#[derive(Debug, Default)]
pub(crate) struct Catalog(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    ids: HashMap<QueueName, i32>,
    rules: HashMap<i32, (i64, Arc<Rules>)>,
}

/// A queue as it was once.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) id: i32,
    pub(crate) version: i64,
    pub(crate) rules: Arc<Rules>,
}

impl Catalog {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("the lock is never held across a panic")
    }

    /// The number of a queue, if it was seen before.
    pub(crate) fn id(&self, name: &QueueName) -> Option<i32> {
        self.known().ids.get(name).copied()
    }

    /// A queue as it was last seen.
    pub(crate) fn last_seen(&self, name: &QueueName) -> Option<Seen> {
        let known = self.known();
        let id = *known.ids.get(name)?;
        let (version, rules) = known.rules.get(&id)?;
        Some(Seen { id, version: *version, rules: Arc::clone(rules) })
    }

    /// Notes the number of a queue.
    pub(crate) fn learn(&self, name: QueueName, id: i32) {
        self.known().ids.insert(name, id);
    }

    /// Forgets a queue that is not what it was.
    pub(crate) fn forget(&self, name: &QueueName) {
        let mut known = self.known();
        if let Some(id) = known.ids.remove(name) {
            known.rules.remove(&id);
        }
    }

    /// The rules that the settings of a row make. Compiling a key pattern takes longer than a whole publish, so they are
    /// made once per version.
    pub(crate) fn rules(&self, id: i32, version: i64, config: &QueueConfig) -> Result<Arc<Rules>, Fault> {
        if let Some((_, rules)) = self.known().rules.get(&id).filter(|(made_of, _)| *made_of == version) {
            return Ok(Arc::clone(rules));
        }
        let rules = Rules::new(config.clone())
            .map_err(|e| Fault::damaged("queue", i64::from(id), &format!("its settings are refused: {e}")))?;
        let rules = Arc::new(rules);
        self.known().rules.insert(id, (version, Arc::clone(&rules)));
        Ok(rules)
    }
}

/// The number of a queue, as a working set has it.
pub(crate) fn queue_id(number: i32) -> QueueId {
    QueueId(u64::from(number.cast_unsigned()))
}

/// The number of a queue, as a column has it.
pub(crate) fn queue_number(id: QueueId) -> i32 {
    i32::try_from(id.0).unwrap_or(i32::MAX)
}
