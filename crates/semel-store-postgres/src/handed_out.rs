//! What this node remembers of the deliveries that it handed out: their jobs, as they stood then.
//!
//! Nearly every delivery is settled with the node that handed it out, and as nothing else happened to its job. Whoever decides
//! by this memory checks it against the row, by the lease's token. It is only a memory: what is not in it is asked for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use semel_core::ids::JobId;
use semel_store::working::Stored;

/// Most deliveries that are remembered. When there are more all are forgotten, those that nobody ever settled with them.
const MOST: usize = 8192;

/// Most bytes of a payload that is remembered with its job.
const PAYLOAD_MAX: usize = 1024;

/// The memory of one node.
#[derive(Debug, Default)]
pub(crate) struct HandedOut(Mutex<HashMap<JobId, Stored>>);

impl HandedOut {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Stored>> {
        self.0.lock().expect("the lock is never held across a panic")
    }

    /// Remembers jobs that were handed out.
    pub(crate) fn note(&self, jobs: impl IntoIterator<Item = Stored>) {
        let mut known = self.jobs();
        for stored in jobs.into_iter().filter(is_small) {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(stored.job.id, stored);
        }
    }

    /// Forgets these jobs, and returns them if all of them were remembered.
    pub(crate) fn take<'a>(&self, ids: impl Iterator<Item = &'a JobId>) -> Option<Vec<Stored>> {
        let mut known = self.jobs();
        // All of them are taken out before it is said that one was missing.
        let taken: Vec<_> = ids.map(|id| known.remove(id)).collect();
        taken.into_iter().collect()
    }
}

fn is_small(stored: &Stored) -> bool {
    stored.job.spec.payload.as_ref().is_none_or(|payload| payload.bytes().len() <= PAYLOAD_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use semel_core::name::QueueName;
    use semel_core::payload::Payload;
    use semel_core::publish::{Draft, create};
    use semel_core::queue::{QueueConfig, Rules};
    use semel_core::time::Timestamp;

    use super::*;
    use crate::catalog::queue_id;

    fn id(number: u64) -> JobId {
        JobId::from_raw(number).unwrap()
    }

    fn stored(number: u64, payload: &str) -> Stored {
        let payload = Payload::from_json(payload.to_owned()).unwrap();
        let draft = Draft::new(QueueName::try_from("orders").unwrap(), payload).check().unwrap();
        let rules = Rules::new(QueueConfig::default()).unwrap();
        let job = create(id(number), draft.into_spec(&rules, Timestamp::default()));
        Stored { job, queue: queue_id(1), lease: None, open: true, suppressed: VecDeque::new() }
    }

    fn taken(memory: &HandedOut, ids: &[JobId]) -> Option<Vec<JobId>> {
        memory.take(ids.iter()).map(|jobs| jobs.iter().map(|stored| stored.job.id).collect())
    }

    #[test]
    fn what_is_taken_is_forgotten_even_if_something_is_missing() {
        let memory = HandedOut::default();
        memory.note([stored(1, "1"), stored(2, "2"), stored(3, "3")]);
        assert_eq!(taken(&memory, &[id(1)]), Some(vec![id(1)]));
        assert_eq!(taken(&memory, &[id(1), id(2)]), None);
        assert_eq!(taken(&memory, &[id(2)]), None);
        assert_eq!(taken(&memory, &[id(3)]), Some(vec![id(3)]));
        assert_eq!(taken(&memory, &[]), Some(vec![]));
    }

    #[test]
    fn neither_many_jobs_nor_large_ones_fill_the_memory() {
        let memory = HandedOut::default();
        memory.note([stored(1, &format!("{:?}", "x".repeat(PAYLOAD_MAX)))]);
        assert_eq!(taken(&memory, &[id(1)]), None, "it is too large");
        memory.note((0..=MOST as u64).map(|number| stored(number, "1")));
        assert_eq!(memory.jobs().len(), 1, "only the last one is known");
    }
}
