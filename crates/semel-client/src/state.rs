//! Where a job stands.

use std::fmt;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waiting.
    Pending,
    /// With a worker.
    Processing,
    /// Received by a worker, not settled yet.
    AwaitingAck,
    /// Done.
    Completed,
    /// A dead letter.
    Dead,
    /// Called off.
    Cancelled,
}

impl State {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Pending, "pending"),
        (Self::Processing, "processing"),
        (Self::AwaitingAck, "awaiting_ack"),
        (Self::Completed, "completed"),
        (Self::Dead, "dead"),
        (Self::Cancelled, "cancelled"),
    ];

    /// The state that the API calls so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(state, _)| state)
    }

    /// Whether nothing more will happen to the job, unless somebody replays it.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Dead | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(state, _)| state == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}
