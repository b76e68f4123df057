//! What went through a queue in the last minutes, counted.

use semel_core::time::Timestamp;

/// Minutes that are remembered, the current one included: a quarter of an hour and a bit.
const MINUTES: usize = 16;
const MINUTE: u64 = 60_000;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// A job was published.
    Created,
    /// A publish was answered with an earlier job.
    Deduplicated,
    /// A job was done.
    Done,
    /// A delivery failed.
    Failed,
    /// A lease ran out.
    Expired,
    /// A job became a dead letter.
    Dead,
}

const COUNTS: usize = 6;

/// Counts by minute: 16 x 6 numbers of 4 bytes, whatever the queue does.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The minute of the newest counts, since 1970.
    newest: u64,
    by_minute: [[u32; COUNTS]; MINUTES],
}

impl Flow {
    /// Counts one.
    pub(super) fn add(&mut self, what: Count, now: Timestamp) {
        let minute = now.millis() / MINUTE;
        if minute > self.newest {
            self.turn_to(minute);
        }
        let count = &mut self.by_minute[place(self.newest)][what as usize];
        *count = count.saturating_add(1);
    }

    fn turn_to(&mut self, minute: u64) {
        let passed = (minute - self.newest).min(MINUTES as u64);
        for back in 0..passed {
            self.by_minute[place(minute - back)] = [0; COUNTS];
        }
        self.newest = minute;
    }

    /// How many there were in the last `minutes` whole minutes and the current one.
    pub(super) fn last(&self, minutes: u64, what: Count, now: Timestamp) -> u64 {
        let current = now.millis() / MINUTE;
        let remembered = |minute: &u64| *minute <= self.newest && self.newest - minute < MINUTES as u64;
        let counted = (current.saturating_sub(minutes)..=current).filter(remembered);
        counted.map(|minute| u64::from(self.by_minute[place(minute)][what as usize])).sum()
    }
}

fn place(minute: u64) -> usize {
    usize::try_from(minute % MINUTES as u64).expect("it is less than the number of minutes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + minute) * MINUTE + 17)
    }

    #[test]
    fn minutes_that_are_over_no_longer_count() {
        let mut flow = Flow::default();
        for minute in [0, 0, 1, 5] {
            flow.add(Count::Failed, at(minute));
        }
        flow.add(Count::Done, at(5));
        assert_eq!(flow.last(5, Count::Failed, at(5)), 4);
        assert_eq!(flow.last(4, Count::Failed, at(5)), 2);
        assert_eq!(flow.last(0, Count::Failed, at(5)), 1);
        assert_eq!(flow.last(5, Count::Done, at(5)), 1);
        assert_eq!(flow.last(5, Count::Failed, at(10)), 1, "the current minute moved on by itself");
        assert_eq!(flow.last(15, Count::Failed, at(60)), 0);
        flow.add(Count::Failed, at(1000));
        assert_eq!(flow.last(15, Count::Failed, at(1000)), 1, "a long silence leaves nothing behind");
    }
}
