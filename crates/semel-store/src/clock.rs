//! The time a store goes by. It is given to a store when it is opened, and it never goes back.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use semel_core::time::{Millis, Timestamp};

/// A source of time. Law: `now` MUST NOT go back, whoever asks.
pub trait Clock: Send + Sync + Debug {
    /// What time it is.
    fn now(&self) -> Timestamp;
}

/// How fast the clock moves towards a wall clock that jumped: a tenth of real time.
///
/// A jump of one second is absorbed in ten; a jump of ten years, which is a mistake, would take a century, so it can
/// neither expire every key at once nor fire ten years of schedules.
const SLEW_DIVISOR: u64 = 10;

/// The machine's time: monotonic, anchored at the wall clock when it was made, moving towards the wall clock slowly.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    state: Mutex<Slewed>,
}

/// The pure part of [`SystemClock`]: how far it has come, and how far off the wall clock it is.
#[derive(Debug, Clone, Copy)]
struct Slewed {
    elapsed: u64,
    now: u64,
}

impl SystemClock {
    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        Self { start: Instant::now(), state: Mutex::new(Slewed { elapsed: 0, now: wall_clock() }) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().expect("the clock's lock is never held across a panic");
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        *state = state.advance(elapsed, wall_clock());
        Timestamp::from_millis(state.now)
    }
}

impl Slewed {
    /// Moves on by the monotonic time that passed, faster or slower by at most a tenth to approach the wall clock.
    fn advance(self, elapsed: u64, wall: u64) -> Self {
        let step = elapsed.saturating_sub(self.elapsed);
        if step < SLEW_DIVISOR {
            // Too short a step to slew by whole milliseconds: leave it for the next call to measure.
            return Self { elapsed: self.elapsed, now: self.now };
        }
        let straight = self.now + step;
        let most = step / SLEW_DIVISOR;
        let now = wall.clamp(straight - most, straight + most);
        Self { elapsed: elapsed.max(self.elapsed), now }
    }
}

fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A clock that only moves when it is told to: for tests, where time is passed in.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self(AtomicU64::new(start.millis()))
    }

    /// Moves the clock on.
    pub fn advance(&self, span: Millis) {
        self.0.fetch_add(span.millis(), Ordering::SeqCst);
    }

    /// Moves the clock to `time`, unless that would be back.
    pub fn advance_to(&self, time: Timestamp) {
        self.0.fetch_max(time.millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_jump_of_the_wall_clock_is_followed_slowly() {
        let start = Slewed { elapsed: 0, now: 1_000_000_000 };
        let forward = start.advance(1000, 1_000_000_000 + 1000 + HOUR);
        assert_eq!(forward.now, 1_000_001_100, "at most a tenth faster");
        let back = start.advance(1000, 1_000_000_000 - HOUR);
        assert_eq!(back.now, 1_000_000_900, "slower, but never back");
        let ten_years = start.advance(HOUR, 1_000_000_000 + 10 * 365 * 24 * HOUR);
        assert_eq!(ten_years.now, 1_000_000_000 + HOUR + HOUR / 10);
    }

    #[test]
    fn a_wall_clock_that_agrees_is_followed_exactly() {
        let mut clock = Slewed { elapsed: 0, now: 5_000_000 };
        for second in 1..=100 {
            clock = clock.advance(second * 1000, 5_000_000 + second * 1000 + 3);
        }
        assert_eq!(clock.now, 5_100_003);
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let times: Vec<_> = (0..10_000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
