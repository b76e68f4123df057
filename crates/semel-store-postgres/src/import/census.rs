//! What a store keeps, counted.

use std::collections::BTreeMap;

use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_store::transfer::{Holdings, KeptQueue};
use semel_store::working::{QueueId, Stored, Tally};
use serde::{Serialize, Serializer};

/// What a store keeps, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Jobs.
    pub jobs: u64,
    /// Jobs that are kept under a key, whether they still hold it or not.
    pub keys: u64,
    /// Jobs with which later publishes were answered.
    pub duplicated: u64,
    /// Schedules.
    pub schedules: u64,
    /// API keys.
    pub api_keys: u64,
    /// Replay tasks.
    pub replays: u64,
    /// Its queues by number. A deleted one of which nothing is kept is left out when they are shown.
    #[serde(serialize_with = "worth_showing")]
    pub queues: BTreeMap<QueueId, QueueCensus>,
}

/// The jobs of a queue, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueCensus {
    /// Its name.
    pub queue: QueueName,
    /// Whether it has been deleted.
    pub deleted: bool,
    /// Jobs that have not ended. A lease is not moved, so what a worker has counts as waiting.
    pub unfinished: u64,
    /// Completed jobs that are still kept.
    pub completed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Cancelled jobs that are still kept.
    pub cancelled: u64,
}

impl Census {
    /// All but the jobs.
    pub(super) fn of(holdings: &Holdings) -> Self {
        let Holdings { schedules, api_keys, replays, .. } = holdings;
        Self::new(&holdings.queues, [schedules.len(), api_keys.len(), replays.len()])
    }

    /// Queues without jobs, and so many schedules, API keys and replay tasks.
    pub(super) fn new<'a>(queues: impl IntoIterator<Item = &'a KeptQueue>, records: [usize; 3]) -> Self {
        let [schedules, api_keys, replays] = records.map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        let queues = queues.into_iter().map(|queue| (queue.id, QueueCensus::of(queue))).collect();
        Self { schedules, api_keys, replays, queues, ..Self::default() }
    }

    /// Counts a job.
    pub(super) fn add(&mut self, Stored { job, queue, .. }: &Stored) {
        self.jobs += 1;
        self.keys += u64::from(job.spec.key.is_some());
        self.duplicated += u64::from(job.duplicates > 0);
        if let Some(queue) = self.queues.get_mut(queue) {
            *queue.count(job.progress.state) += 1;
        }
    }

    /// The queues that people want to know of.
    pub fn shown(&self) -> impl Iterator<Item = &QueueCensus> {
        self.queues.values().filter(|queue| queue.is_worth_showing())
    }

    /// How many jobs have ended or not, over all queues.
    pub(super) fn unfinished(&self) -> u64 {
        self.queues.values().map(|queue| queue.unfinished).sum()
    }
}

impl QueueCensus {
    fn of(queue: &KeptQueue) -> Self {
        let (queue, deleted) = (queue.record.name.clone(), queue.deleted);
        Self { queue, deleted, unfinished: 0, completed: 0, dead: 0, cancelled: 0 }
    }

    fn is_worth_showing(&self) -> bool {
        !self.deleted || self.unfinished + self.completed + self.dead + self.cancelled > 0
    }

    fn count(&mut self, state: State) -> &mut u64 {
        match state {
            State::Pending | State::Processing | State::AwaitingAck => &mut self.unfinished,
            State::Completed => &mut self.completed,
            State::Dead => &mut self.dead,
            State::Cancelled => &mut self.cancelled,
        }
    }

    /// The counts as the store keeps them.
    pub(super) fn tally(&self) -> Tally {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Tally {
            unfinished: signed(self.unfinished),
            completed: signed(self.completed),
            dead: signed(self.dead),
            cancelled: signed(self.cancelled),
        }
    }
}

fn worth_showing<S: Serializer>(
    queues: &BTreeMap<QueueId, QueueCensus>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(queues.values().filter(|queue| queue.is_worth_showing()))
}
