//! A clock that runs faster than time, and that several processes can share.

use std::str::FromStr;

use semel_core::time::Timestamp;
use semel_store::Clock;

/// A clock that started at `start` when the machine's monotonic clock stood at `mono`, and goes `speed` times as fast.
///
/// A kill comes after less than a second, while the shortest lease takes one and retries and windows take longer. With
/// twenty store seconds to a second they all happen within a round. The machine's clock is the same for every process, so
/// a restarted one goes on where the killed one was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledClock {
    start: u64,
    mono: u64,
    speed: u64,
}

impl ScaledClock {
    /// A clock that stands at `start` now.
    pub fn starting_at(start: Timestamp, speed: u64) -> Self {
        Self { start: start.millis(), mono: monotonic_micros(), speed }
    }
}

impl Clock for ScaledClock {
    fn now(&self) -> Timestamp {
        let passed = monotonic_micros().saturating_sub(self.mono);
        Timestamp::from_millis(self.start + passed.saturating_mul(self.speed) / 1000)
    }
}

fn monotonic_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let secs = u64::try_from(time.tv_sec).expect("the monotonic clock counts from boot");
    let nanos = u64::try_from(time.tv_nsec).expect("the monotonic clock counts from boot");
    secs * 1_000_000 + nanos / 1000
}

impl std::fmt::Display for ScaledClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.start, self.mono, self.speed)
    }
}

impl FromStr for ScaledClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some([start, mono, speed]) => Ok(Self { start: *start, mono: *mono, speed: *speed }),
            _ => Err(format!("{text:?} is not start:mono:speed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_survives_text() {
        let clock = ScaledClock::starting_at(Timestamp::from_millis(5000), 20);
        let times: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted() && times[0] >= Timestamp::from_millis(5000));
        assert_eq!(clock.to_string().parse(), Ok(clock));
        assert!("1:2".parse::<ScaledClock>().is_err());
    }
}
