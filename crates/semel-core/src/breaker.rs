//! The circuit breaker of a queue: after enough failures in a row, deliveries stop for a while.
//!
//! ```text
//!            enough failures        cooldown over: one probe
//!   Closed ------------------> Open ------------------------> HalfOpen
//!     ^                         ^                                |
//!     |                         +------------ it failed ---------+
//!     +-------------------------------------- it succeeded ------+
//! ```
//!
//! An open breaker burns no attempts: a job that is not sent cannot fail. Without it an endpoint that is down for an
//! hour turns a whole backlog into dead letters.

use serde::{Deserialize, Serialize};

use crate::hold::Allowance;
use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// Most failures in a row a breaker may wait for.
pub const FAILURES_MAX: u32 = 1000;

/// Longest time a breaker may stay open before it tries again. A day-long cooldown is a pause, which is a setting of its own.
pub const COOLDOWN_MAX: Millis = Millis::from_days(1);

/// When the breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BreakerConfig {
    /// It opens after this many failures in a row.
    pub failures: u32,
    /// Then nothing goes out for this long.
    pub cooldown: Millis,
}

impl BreakerConfig {
    /// Notes everything that is wrong with the settings, under `breaker.`.
    pub fn check(&self, found: &mut Violations) {
        found.require((1..=FAILURES_MAX).contains(&self.failures), "breaker.failures", || {
            format!("must be from 1 to {FAILURES_MAX}, got {}", self.failures)
        });
        found.require(
            Millis::ZERO < self.cooldown && self.cooldown <= COOLDOWN_MAX,
            "breaker.cooldown",
            || format!("must be more than 0 and at most {COOLDOWN_MAX}, got {}", self.cooldown),
        );
    }
}

/// Where a breaker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Breaker {
    /// Deliveries go out.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// Nothing goes out before `until`; then one probe does.
    Open {
        /// The end of the cooldown.
        until: Timestamp,
    },
    /// One delivery decides whether the endpoint is back.
    HalfOpen {
        /// Whether it is out; if not, it may go at once.
        probing: bool,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Whether deliveries go out freely.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// How many jobs may go out at `now`.
    pub fn allows(&self, now: Timestamp) -> Allowance {
        match self {
            Self::Closed { .. } => Allowance::All,
            Self::Open { until } if *until <= now => Allowance::One,
            Self::HalfOpen { probing: false } => Allowance::One,
            Self::Open { .. } | Self::HalfOpen { probing: true } => Allowance::None,
        }
    }

    /// A delivery succeeded. One that was sent before the breaker opened changes nothing: the probe decides.
    #[must_use]
    pub fn on_success(self) -> Self {
        match self {
            Self::Closed { .. } | Self::HalfOpen { .. } => Self::default(),
            Self::Open { .. } => self,
        }
    }

    /// A delivery failed. Those that were under way when the breaker opened do not lengthen its cooldown.
    #[must_use]
    pub fn on_failure(self, config: &BreakerConfig, now: Timestamp) -> Self {
        let opened = Self::Open { until: now.plus(config.cooldown) };
        match self {
            Self::Closed { failures } if failures.saturating_add(1) >= config.failures => opened,
            Self::Closed { failures } => Self::Closed { failures: failures.saturating_add(1) },
            Self::HalfOpen { .. } => opened,
            Self::Open { .. } => self,
        }
    }

    /// The probe went out.
    #[must_use]
    pub fn probe_sent(self) -> Self {
        match self {
            Self::Open { .. } | Self::HalfOpen { .. } => Self::HalfOpen { probing: true },
            Self::Closed { .. } => self,
        }
    }

    /// The probe ended without telling anything; another may go at once.
    #[must_use]
    pub fn probe_lost(self) -> Self {
        match self {
            Self::HalfOpen { .. } => Self::HalfOpen { probing: false },
            Self::Closed { .. } | Self::Open { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: BreakerConfig = BreakerConfig { failures: 3, cooldown: Millis::from_millis(100) };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn failed(times: u32) -> Breaker {
        (0..times).fold(Breaker::default(), |breaker, _| breaker.on_failure(&CONFIG, at(1000)))
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        assert!(failed(2).is_closed());
        assert!(failed(2).on_success().on_failure(&CONFIG, at(0)).on_failure(&CONFIG, at(0)).is_closed());
        assert_eq!(failed(3), Breaker::Open { until: at(1100) });
    }

    #[test]
    fn it_lets_one_probe_out_after_the_cooldown() {
        let open = failed(3);
        assert_eq!(open.allows(at(1099)), Allowance::None);
        assert_eq!(open.allows(at(1100)), Allowance::One);
        assert_eq!(open.probe_sent().allows(at(9999)), Allowance::None);
    }

    #[test]
    fn the_probe_decides() {
        let half = failed(3).probe_sent();
        assert_eq!(half.on_success(), Breaker::default());
        assert_eq!(half.on_failure(&CONFIG, at(2000)), Breaker::Open { until: at(2100) });
        assert_eq!(half.probe_lost().allows(at(0)), Allowance::One);
        assert_eq!(half.probe_lost().probe_sent(), half);
    }

    #[test]
    fn deliveries_sent_before_it_opened_change_nothing() {
        let open = failed(3);
        assert_eq!(open.on_failure(&CONFIG, at(1050)), open);
        assert_eq!(open.on_success(), open);
        assert_eq!(open.probe_lost(), open);
    }

    #[test]
    fn a_closed_breaker_sends_no_probe() {
        assert_eq!(failed(1).probe_sent(), failed(1));
        assert_eq!(failed(1).probe_lost(), failed(1));
        assert_eq!(failed(1).allows(at(0)), Allowance::All);
    }

    #[test]
    fn a_lowered_threshold_opens_at_the_next_failure() {
        let strict = BreakerConfig { failures: 1, ..CONFIG };
        assert!(!failed(2).on_failure(&strict, at(0)).is_closed());
    }

    #[test]
    fn every_bad_setting_is_named() {
        let mut found = Violations::default();
        BreakerConfig { failures: 0, cooldown: Millis::ZERO }.check(&mut found);
        let fields = found.iter().map(|v| v.field.as_str()).collect::<Vec<_>>();
        assert_eq!(fields, ["breaker.failures", "breaker.cooldown"]);
    }
}
