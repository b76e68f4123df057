//! Callers who wait for a job to end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use semel_core::ids::JobId;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Who waits for which job. Most jobs end with nobody waiting, and then it costs one look at a counter.
#[derive(Debug, Default)]
pub struct Ends {
    waiting: AtomicUsize,
    jobs: Mutex<HashMap<JobId, Arc<Notify>>>,
}

/// A caller's place in the line for one job; leaving it is dropping this.
#[derive(Debug)]
pub struct Waiting<'a> {
    ends: &'a Ends,
    id: JobId,
    bell: Arc<Notify>,
}

impl Ends {
    /// Starts waiting for a job. What happens from now on is not missed; what happened before must be looked up.
    pub fn wait_for(&self, id: JobId) -> Waiting<'_> {
        let bell = self.jobs().entry(id).or_default().clone();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting { ends: self, id, bell }
    }

    /// Tells everybody who waits for this job that it ended.
    pub(super) fn ended(&self, id: JobId) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(bell) = self.jobs().get(&id) {
            bell.notify_waiters();
        }
    }

    /// Whether somebody waits for a job to end.
    pub(crate) fn is_awaited(&self, id: JobId) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 && self.jobs().contains_key(&id)
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Arc<Notify>>> {
        self.jobs.lock().expect("no one panics while holding the line")
    }
}

impl Waiting<'_> {
    /// The end of the job. Make the future before looking the job up, and await it after.
    pub fn end(&self) -> OwnedNotified {
        self.bell.clone().notified_owned()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.ends.waiting.fetch_sub(1, Ordering::SeqCst);
        let mut jobs = self.ends.jobs();
        // Two are left: the map's and this one. Then nobody else waits.
        if Arc::strong_count(&self.bell) <= 2 {
            jobs.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_who_waits_is_told_and_nothing_is_left_behind() {
        let ends = Ends::default();
        let id = JobId::from_raw(7).unwrap();
        let (one, other) = (ends.wait_for(id), ends.wait_for(id));
        let mut ends_of_both = [Box::pin(one.end()), Box::pin(other.end())];
        for end in &mut ends_of_both {
            end.as_mut().enable();
        }
        assert!(ends.is_awaited(id));
        assert!(!ends.is_awaited(JobId::from_raw(8).unwrap()));
        ends.ended(id);
        for end in ends_of_both {
            end.await;
        }
        drop((one, other));
        assert!(ends.jobs().is_empty());
        assert!(!ends.is_awaited(id));
    }
}
