//! The life of a job: the only place where a state changes.
//!
//! ```text
//!             publish
//!                |
//!                v     lease            receive
//!    +------> pending -------> processing -----> awaiting_ack
//!    |         |  ^             |  |  |            |  |  |
//!    |  cancel |  +-- retry ----+  |  | complete   |  |  |   (retry, complete, bury and cancel
//!    |  or bury|  +-- defer ----+  |  |            |  |  |    leave awaiting_ack as they leave
//!    |         v                   |  v            |  |  |    processing)
//!    |     cancelled <-- cancel ---+  completed <--+  |  |
//!    |     or dead                 |                  |  |
//!    |                        bury +--> dead <--------+  +--> cancelled, pending
//!    |                                   |
//!    +------------- replay --------------+
//! ```
//!
//! `completed` and `cancelled` are final. `dead` waits for a person: a replay makes it pending again, under the same id
//! and the same key.

use serde::{Deserialize, Serialize};

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for its time, for its group or for a worker.
    Pending,
    /// Leased: a worker has it.
    Processing,
    /// A worker said it received the job and will settle it out of band.
    AwaitingAck,
    /// Done.
    Completed,
    /// Failed for good; kept as a dead letter.
    Dead,
    /// Called off.
    Cancelled,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A worker takes it.
    Lease,
    /// The worker received it and will settle later.
    Receive,
    /// The work is done.
    Complete,
    /// The attempt failed or ran out of time; another will be made.
    Retry,
    /// Backpressure: later, without burning an attempt.
    Defer,
    /// No further attempt: to the dead letters. A person or a rule may say so before the first one, too.
    Bury,
    /// Called off by a person or a program.
    Cancel,
    /// A dead letter gets another life.
    Replay,
}

/// An event that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {state:?} cannot {event:?}")]
pub struct IllegalTransition {
    /// The state the job is in.
    pub state: State,
    /// What was asked for.
    pub event: Event,
}

impl State {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Processing, Self::AwaitingAck, Self::Completed, Self::Dead, Self::Cancelled];

    /// The state after `event`, or why there is none.
    pub fn after(self, event: Event) -> Result<Self, IllegalTransition> {
        use Event::{Bury, Cancel, Complete, Defer, Lease, Receive, Replay, Retry};
        use State::{AwaitingAck, Cancelled, Completed, Dead, Pending, Processing};
        match (self, event) {
            (Pending, Lease) => Ok(Processing),
            (Processing, Receive) => Ok(AwaitingAck),
            (Processing | AwaitingAck, Complete) => Ok(Completed),
            (Processing | AwaitingAck, Retry | Defer) => Ok(Pending),
            (Pending | Processing | AwaitingAck, Bury) => Ok(Dead),
            (Pending | Processing | AwaitingAck, Cancel) => Ok(Cancelled),
            (Dead, Replay) => Ok(Pending),
            (state, event) => Err(IllegalTransition { state, event }),
        }
    }

    /// Whether the job has ended. A dead letter has, until it is replayed.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Dead | Self::Cancelled)
    }

    /// Whether a worker holds a lease on it.
    pub fn is_leased(self) -> bool {
        matches!(self, Self::Processing | Self::AwaitingAck)
    }

    /// The name used in the API, in metrics and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::AwaitingAck => "awaiting_ack",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 8] = [
        Event::Lease,
        Event::Receive,
        Event::Complete,
        Event::Retry,
        Event::Defer,
        Event::Bury,
        Event::Cancel,
        Event::Replay,
    ];

    #[test]
    fn the_whole_table() {
        let mut table = String::new();
        for state in State::ALL {
            let row: Vec<_> = EVENTS.iter().map(|&e| state.after(e).map_or("-", State::name)).collect();
            table += &format!("{}: {}\n", state.name(), row.join(" "));
        }
        assert_eq!(
            table,
            "pending: processing - - - - dead cancelled -\n\
             processing: - awaiting_ack completed pending pending dead cancelled -\n\
             awaiting_ack: - - completed pending pending dead cancelled -\n\
             completed: - - - - - - - -\n\
             dead: - - - - - - - pending\n\
             cancelled: - - - - - - - -\n"
        );
    }

    #[test]
    fn only_a_dead_letter_leaves_the_end() {
        for state in State::ALL.into_iter().filter(|s| s.is_finished()) {
            let exits = EVENTS.iter().filter(|&&e| state.after(e).is_ok()).count();
            assert_eq!(exits, usize::from(state == State::Dead), "{state:?}");
        }
    }
}
