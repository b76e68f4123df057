//! A hold: a queue that waits because its workers asked for time.
//!
//! ```text
//!          backpressure          due: one probe goes out
//!   Open ---------------> Until ------------------------> Probing
//!    ^                     ^  ^                              |
//!    |                     |  +--- it is pushed back --------+
//!    |                     +------ it is lost (due at once) -+
//!    +---------------------------- it worked ----------------+
//! ```
//!
//! One probe goes first because a whole backlog let loose on a worker that has just recovered would push it over again.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Whether a queue waits out backpressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hold {
    /// Nobody asked to wait.
    #[default]
    Open,
    /// Nothing goes out before this time; then one probe does.
    Until(Timestamp),
    /// The probe is out; its end decides.
    Probing,
}

/// How many jobs something lets through, as far as it is concerned. The strictest of several is their minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowance {
    /// Not one.
    None,
    /// One job, as a probe.
    One,
    /// As many as there are.
    All,
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The workers take jobs again.
    Worked,
    /// The workers asked for more time.
    Pushback {
        /// When to try again.
        until: Timestamp,
    },
    /// It ended without telling whether the pressure is over.
    Lost,
}

impl Hold {
    /// The workers asked to be left alone until `until`. A hold only ever grows: the longest wait asked for wins.
    ///
    /// It also ends the wait for a probe that is out: what a worker asks for now is newer than what the probe will say.
    #[must_use]
    pub fn backpressure(self, until: Timestamp) -> Self {
        match self {
            Self::Until(earlier) => Self::Until(earlier.max(until)),
            Self::Open | Self::Probing => Self::Until(until),
        }
    }

    /// How many jobs may go out at `now`.
    pub fn allows(&self, now: Timestamp) -> Allowance {
        match self {
            Self::Open => Allowance::All,
            Self::Until(due) if *due <= now => Allowance::One,
            Self::Until(_) | Self::Probing => Allowance::None,
        }
    }

    /// A probe went out.
    #[must_use]
    pub fn probe_sent(self) -> Self {
        match self {
            Self::Until(_) => Self::Probing,
            Self::Open | Self::Probing => self,
        }
    }

    /// The probe ended. A lost one is followed by another at once: nothing was learned, so there is nothing to wait for.
    #[must_use]
    pub fn probe_settled(self, result: Probe) -> Self {
        match (self, result) {
            (Self::Probing, Probe::Worked) => Self::Open,
            (Self::Probing, Probe::Lost) => Self::Until(Timestamp::default()),
            (_, Probe::Pushback { until }) => self.backpressure(until),
            (Self::Open | Self::Until(_), Probe::Worked | Probe::Lost) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn backpressure_stops_everything_until_its_time_and_then_lets_one_out() {
        let hold = Hold::default().backpressure(at(100));
        assert_eq!(hold.allows(at(99)), Allowance::None);
        assert_eq!(hold.allows(at(100)), Allowance::One);
        assert_eq!(hold.probe_sent().allows(at(1000)), Allowance::None);
    }

    #[test]
    fn the_probe_decides() {
        let probing = Hold::default().backpressure(at(100)).probe_sent();
        assert_eq!(probing.probe_settled(Probe::Worked), Hold::Open);
        assert_eq!(probing.probe_settled(Probe::Pushback { until: at(300) }), Hold::Until(at(300)));
        assert_eq!(probing.probe_settled(Probe::Lost).allows(at(0)), Allowance::One);
    }

    #[test]
    fn the_longest_wait_wins() {
        let hold = Hold::default().backpressure(at(100)).backpressure(at(50));
        assert_eq!(hold, Hold::Until(at(100)));
        assert_eq!(hold.backpressure(at(200)), Hold::Until(at(200)));
    }

    #[test]
    fn newer_backpressure_outranks_a_probe_that_is_still_out() {
        let hold = Hold::default().backpressure(at(100)).probe_sent().backpressure(at(500));
        assert_eq!(hold.probe_settled(Probe::Worked), Hold::Until(at(500)));
        assert_eq!(hold.probe_settled(Probe::Lost), Hold::Until(at(500)));
    }

    #[test]
    fn an_open_queue_sends_no_probe() {
        assert_eq!(Hold::Open.probe_sent(), Hold::Open);
        assert_eq!(Hold::Open.probe_settled(Probe::Lost), Hold::Open);
        assert_eq!(Hold::Open.allows(at(0)), Allowance::All);
    }

    #[test]
    fn the_strictest_allowance_is_the_least() {
        assert_eq!(Allowance::All.min(Allowance::One), Allowance::One);
        assert_eq!(Allowance::One.min(Allowance::None), Allowance::None);
    }
}
