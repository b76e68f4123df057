//! Keys that contain the time of their own publish: the next try would have another key.

use semel_core::key::Key;
use semel_core::time::{Millis, Timestamp};

use super::looks::contains_its_time;

/// Keys that are looked at in a minute. Looking takes a microsecond; a queue that publishes more has keys of the same kind.
const EXAMINED: u32 = 32;

/// How long a round of counting lasts. The round before counts, too.
const ROUND: Millis = Millis::from_secs(600);

/// From how many keys on a share is more than an accident.
const ENOUGH: u32 = 20;

/// How many of the keys of a queue contain the time.
#[derive(Debug, Default)]
pub(super) struct Minted {
    minute: u64,
    left: u32,
    began: Timestamp,
    now: Tally,
    before: Tally,
    sample: Option<Key>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    examined: u32,
    timed: u32,
}

/// A share of keys that is too large.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    pub(crate) examined: u32,
    pub(crate) timed: u32,
    pub(crate) sample: &'a Key,
}

impl Minted {
    /// A job was created under a key.
    pub(super) fn note(&mut self, key: &Key, now: Timestamp) {
        let minute = now.millis() / 60_000;
        if minute != self.minute {
            (self.minute, self.left) = (minute, EXAMINED);
            self.turn(now);
        }
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.now.examined += 1;
        if contains_its_time(key.as_str(), now) {
            self.now.timed += 1;
            self.sample = Some(key.clone());
        }
    }

    fn turn(&mut self, now: Timestamp) {
        let passed = now.since(self.began);
        if passed >= ROUND {
            self.before = if passed < ROUND.times(2) { self.now } else { Tally::default() };
            (self.began, self.now) = (now, Tally::default());
        }
    }

    /// The share of keys that contain their time, if it is nearly all of enough keys.
    pub(super) fn share(&self, now: Timestamp) -> Option<Share<'_>> {
        if now.since(self.began) >= ROUND.times(2) {
            return None;
        }
        let examined = self.now.examined + self.before.examined;
        let timed = self.now.timed + self.before.timed;
        // To the second, one time in five is round by accident and not counted: two in three are nearly all.
        let is_most = examined >= ENOUGH && timed.saturating_mul(3) >= examined.saturating_mul(2);
        let sample = self.sample.as_ref().filter(|_| is_most)?;
        Some(Share { examined, timed, sample })
    }
}
