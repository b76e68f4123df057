//! Which queue a delivery was for: a settle names only its job, and a metric wants the queue.
//!
//! Asking the store would cost a read per settle. Remembering what `lease` returned costs a map entry per delivery that
//! is out. The memory is bounded and may forget (after a restart, or when another node leased the job); what it does
//! not know is counted under no queue, never under a guess.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard};

use semel_core::ids::JobId;
use semel_core::name::QueueName;

/// Deliveries in one generation; two are kept, so at most 131,072 are known, in some 8 MB. That is far more than a node
/// has out at once, and only leases that end elsewhere ever stay until they are pushed out.
const GENERATION: usize = 65_536;

/// The queues of deliveries that are out.
#[derive(Debug, Default)]
pub(super) struct Leases {
    generations: Mutex<Generations>,
}

/// When `young` is full it becomes `old`, and what was old is forgotten: the oldest go first, without a list of ages.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<JobId, QueueName>,
    old: HashMap<JobId, QueueName>,
}

impl Leases {
    /// Notes a delivery.
    pub(super) fn begin(&self, id: JobId, queue: &QueueName) {
        let mut all = self.lock();
        if all.young.len() >= GENERATION {
            all.old = mem::take(&mut all.young);
        }
        all.young.insert(id, queue.clone());
    }

    /// The queue of a delivery that goes on.
    pub(super) fn queue(&self, id: JobId) -> Option<QueueName> {
        let all = self.lock();
        all.young.get(&id).or_else(|| all.old.get(&id)).cloned()
    }

    /// The queue of a delivery that has ended.
    pub(super) fn end(&self, id: JobId) -> Option<QueueName> {
        let mut all = self.lock();
        let (young, old) = (all.young.remove(&id), all.old.remove(&id));
        young.or(old)
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().expect("nothing panics while the lock of the known leases is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> JobId {
        JobId::from_raw(n as u64).unwrap()
    }

    #[test]
    fn a_delivery_is_known_until_it_ends() {
        let (leases, queue) = (Leases::default(), QueueName::try_from("orders").unwrap());
        leases.begin(id(1), &queue);
        assert_eq!(leases.queue(id(1)).as_ref(), Some(&queue));
        assert_eq!(leases.end(id(1)), Some(queue));
        assert_eq!(leases.end(id(1)), None);
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_memory_stays_bounded() {
        let (leases, queue) = (Leases::default(), QueueName::try_from("orders").unwrap());
        (0..3 * GENERATION).for_each(|n| leases.begin(id(n), &queue));
        assert_eq!(leases.queue(id(0)), None);
        assert!(leases.queue(id(3 * GENERATION - 1)).is_some());
        assert!(leases.queue(id(2 * GENERATION - 1)).is_some(), "a full generation lives on as the old one");
        let all = leases.lock();
        assert!(all.young.len() + all.old.len() <= 2 * GENERATION);
    }
}
