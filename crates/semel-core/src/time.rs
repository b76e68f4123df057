//! Points in time and spans, in milliseconds, as values: the domain never asks what time it is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(u64);

impl Timestamp {
    /// The time that is `millis` after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// This time, `span` later. Saturates: "never" is a fine answer to "ten thousand years from now".
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Timestamp) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// A span of `hours` hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self::from_secs(hours.saturating_mul(3600))
    }

    /// A span of `days` days.
    pub const fn from_days(days: u64) -> Self {
        Self::from_hours(days.saturating_mul(24))
    }

    /// The span in milliseconds.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Both spans, one after the other.
    pub const fn plus(self, other: Millis) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This span `n` times over.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// What is left of this span when `other` is taken off; zero if nothing is.
    pub const fn minus(self, other: Millis) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Millis {
    /// Prints the span the way people say it: `3d 4h`, `90s`, `250ms`; at most the two largest units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
        let mut rest = self.0;
        let mut parts = Vec::new();
        for (size, name) in UNITS {
            if rest >= size && parts.len() < 2 {
                parts.push(format!("{}{name}", rest / size));
                rest %= size;
            }
        }
        if parts.is_empty() { f.write_str("0s") } else { f.write_str(&parts.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_as_people_say_it() {
        assert_eq!(Millis::from_secs(90).to_string(), "1m 30s");
        assert_eq!(Millis::from_hours(76).to_string(), "3d 4h");
        assert_eq!(Millis::from_millis(250).to_string(), "250ms");
        assert_eq!(Millis::ZERO.to_string(), "0s");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let end = Timestamp::from_millis(u64::MAX);
        assert_eq!(end.plus(Millis::from_secs(1)), end);
        assert_eq!(Timestamp::from_millis(1).since(Timestamp::from_millis(5)), Millis::ZERO);
    }
}
