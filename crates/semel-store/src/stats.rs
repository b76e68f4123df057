//! Counts, per queue.

use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::Timestamp;

/// How many jobs of a queue stand where. After draining these are exactly what a count of the jobs gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue.
    pub queue: QueueName,
    /// Waiting: for their time, their group or a worker.
    pub pending: u64,
    /// With a worker.
    pub processing: u64,
    /// Received by a worker, not settled yet.
    pub awaiting_ack: u64,
    /// Completed and still kept.
    pub completed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Cancelled and still kept.
    pub cancelled: u64,
    /// When the job that has been ready longest became due; `None` if none is ready.
    pub oldest_ready: Option<Timestamp>,
}

impl QueueStats {
    /// A queue without jobs.
    pub fn empty(queue: QueueName) -> Self {
        Self {
            queue,
            pending: 0,
            processing: 0,
            awaiting_ack: 0,
            completed: 0,
            dead: 0,
            cancelled: 0,
            oldest_ready: None,
        }
    }

    /// The count of one state.
    pub fn count(&self, state: State) -> u64 {
        match state {
            State::Pending => self.pending,
            State::Processing => self.processing,
            State::AwaitingAck => self.awaiting_ack,
            State::Completed => self.completed,
            State::Dead => self.dead,
            State::Cancelled => self.cancelled,
        }
    }

    /// Jobs that have not ended.
    pub fn unfinished(&self) -> u64 {
        self.pending + self.processing + self.awaiting_ack
    }
}

/// Counts of every queue, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// One entry per queue, sorted by name.
    pub queues: Vec<QueueStats>,
}
