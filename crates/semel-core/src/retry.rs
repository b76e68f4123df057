//! How long a failed job waits before its next attempt.

use serde::{Deserialize, Serialize};

use crate::time::Millis;
use crate::violation::Violations;

/// Most attempts a job may have. A job that failed a hundred times will not be mended by trying once more, and the
/// bound keeps a life, and so the window proof, finite.
pub const ATTEMPTS_MAX: u32 = 100;

/// First wait of the default policy: long enough for a restarting worker, short enough that nobody notices.
pub const DEFAULT_BASE: Millis = Millis::from_secs(5);

/// Growth of the default policy. Three reaches the cap at the seventh failure: quick while a failure may be a blip,
/// slow once it is an outage.
pub const DEFAULT_FACTOR: f64 = 3.0;

/// Longest single wait of the default policy: an endpoint that recovered is tried again within half an hour.
pub const DEFAULT_CAP: Millis = Millis::from_secs(30 * 60);

/// Longest first wait a policy may ask for.
pub const BASE_MAX: Millis = Millis::from_days(1);

/// Longest single wait a policy may ask for. Whoever wants a job in a month publishes it with a delay.
pub const CAP_MAX: Millis = Millis::from_days(7);

/// Largest growth from one wait to the next; past it the first step already is the cap.
pub const FACTOR_MAX: f64 = 10.0;

/// The waits between the attempts of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How the wait grows.
    pub strategy: Strategy,
    /// The wait after the first failure, before jitter.
    pub base: Millis,
    /// What each further failure multiplies the wait by; only for [`Strategy::Exponential`].
    pub factor: f64,
    /// No wait is longer than this.
    pub cap: Millis,
    /// How waits are spread.
    pub jitter: Jitter,
}

/// How the wait grows from failure to failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// Each wait is `factor` times the one before.
    Exponential,
    /// Every wait is `base`.
    Fixed,
}

/// How waits are spread, so that jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Jitter {
    /// Anywhere between nothing and the whole wait. It spreads a failed burst best, so it is the default.
    Full,
    /// Exactly the wait.
    None,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            strategy: Strategy::Exponential,
            base: DEFAULT_BASE,
            factor: DEFAULT_FACTOR,
            cap: DEFAULT_CAP,
            jitter: Jitter::Full,
        }
    }
}

impl RetryPolicy {
    /// How long to wait after failure number `attempt` (1 is the first).
    ///
    /// The same seed and attempt always give the same wait, on every machine: each backend computes for itself when a
    /// job is due again, and they must not disagree. The seed is made from the job's id.
    pub fn delay(&self, attempt: u32, seed: u64) -> Millis {
        let ceiling = self.ceiling(attempt);
        match self.jitter {
            Jitter::None => ceiling,
            Jitter::Full => {
                let choices = u128::from(ceiling.millis()) + 1;
                let random = splitmix64(seed ^ splitmix64(u64::from(attempt)));
                // The high half of the product is a uniform choice below `choices`: no division, no loop.
                Millis::from_millis(((u128::from(random) * choices) >> 64) as u64)
            }
        }
    }

    /// The longest wait there can be after failure number `attempt`.
    pub fn ceiling(&self, attempt: u32) -> Millis {
        let steps = match self.strategy {
            Strategy::Fixed => 0,
            Strategy::Exponential => attempt.clamp(1, ATTEMPTS_MAX) - 1,
        };
        let cap = exact(self.cap);
        let mut wait = exact(self.base);
        // Multiplied step by step, because the rounding of one multiplication is the same on every machine, while
        // that of a power function is not.
        for _ in 0..steps {
            if wait >= cap {
                break;
            }
            wait *= self.factor;
        }
        if wait >= cap { self.cap } else { whole(wait) }
    }

    /// The longest time the waits of one life can add up to: there is one fewer of them than attempts.
    pub fn longest_span(&self, max_attempts: u32) -> Millis {
        (1..max_attempts.min(ATTEMPTS_MAX))
            .map(|attempt| self.ceiling(attempt))
            .fold(Millis::ZERO, Millis::plus)
    }

    /// Notes everything that is wrong with the policy, under `retry.`.
    pub fn check(&self, found: &mut Violations) {
        found.require(self.base <= BASE_MAX, "retry.base", || {
            format!("must be at most {BASE_MAX}, got {}", self.base)
        });
        found.require((1.0..=FACTOR_MAX).contains(&self.factor), "retry.factor", || {
            format!("must be a number from 1 to {FACTOR_MAX}, got {}", self.factor)
        });
        found.require(self.cap <= CAP_MAX, "retry.cap", || {
            format!("must be at most {CAP_MAX}, got {}", self.cap)
        });
        found.require(self.base <= self.cap, "retry.cap", || {
            format!("must not be shorter than retry.base ({}), got {}", self.base, self.cap)
        });
    }
}

/// A span as a float. Exact, because every span of a validated policy is far below 2^53 ms.
fn exact(span: Millis) -> f64 {
    span.millis() as f64
}

/// A float as a span, fractions of a millisecond dropped.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= wait < cap; NaN becomes 0")]
fn whole(wait: f64) -> Millis {
    Millis::from_millis(wait as u64)
}

/// The splitmix64 generator, one step: a well-mixed number from any seed, however regular. It is written out so that
/// no update of a dependency can ever move the retry time of a job that is already waiting.
fn splitmix64(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn exponential(base: u64, factor: f64, cap: u64) -> RetryPolicy {
        RetryPolicy {
            base: Millis::from_millis(base),
            factor,
            cap: Millis::from_millis(cap),
            ..RetryPolicy::default()
        }
    }

    fn ceilings(policy: &RetryPolicy, attempts: u32) -> Vec<u64> {
        (1..=attempts).map(|n| policy.ceiling(n).millis()).collect()
    }

    #[test]
    fn an_exponential_wait_grows_to_its_cap() {
        assert_eq!(ceilings(&exponential(100, 2.0, 1000), 6), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(ceilings(&exponential(100, 1.5, 1000), 4), [100, 150, 225, 337]);
        assert_eq!(ceilings(&exponential(100, 1.0, 1000), 3), [100, 100, 100]);
        assert_eq!(ceilings(&exponential(0, 2.0, 1000), 3), [0, 0, 0]);
        assert_eq!(exponential(100, 2.0, 1000).ceiling(u32::MAX).millis(), 1000);
    }

    #[test]
    fn a_fixed_wait_stays() {
        let policy = RetryPolicy { strategy: Strategy::Fixed, ..exponential(100, 2.0, 1000) };
        assert_eq!(ceilings(&policy, 4), [100, 100, 100, 100]);
    }

    #[test]
    fn the_default_waits_add_up_to_about_two_hours() {
        let expected = [5, 15, 45, 135, 405, 1215, 1800, 1800, 1800].map(|secs| secs * 1000);
        assert_eq!(ceilings(&RetryPolicy::default(), 9), expected);
        assert_eq!(RetryPolicy::default().longest_span(10), Millis::from_secs(7220));
    }

    #[test]
    fn one_attempt_never_waits() {
        assert_eq!(RetryPolicy::default().longest_span(1), Millis::ZERO);
        assert_eq!(RetryPolicy::default().longest_span(0), Millis::ZERO);
    }

    #[test]
    fn splitmix64_gives_its_published_sequence() {
        // The first numbers of the reference implementation from seed 0.
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(gamma), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(splitmix64(gamma.wrapping_mul(2)), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn a_waiting_job_keeps_its_retry_time_across_versions() {
        let delays = (1..=4).map(|n| RetryPolicy::default().delay(n, 42).millis()).collect::<Vec<_>>();
        assert_eq!(delays, [2475, 1740, 11_894, 74_991]);
    }

    #[test]
    fn full_jitter_uses_the_whole_range_evenly() {
        let policy = exponential(9, 1.0, 9);
        let mut seen = [0_u32; 10];
        for seed in 0..10_000 {
            seen[usize::try_from(policy.delay(1, seed).millis()).unwrap()] += 1;
        }
        // 1,000 each is expected; 150 is five standard deviations.
        assert!(seen.iter().all(|&n| (850..=1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn every_bad_setting_is_named() {
        let cases = [
            (exponential(1, f64::NAN, 10), "retry.factor"),
            (exponential(1, f64::INFINITY, 10), "retry.factor"),
            (exponential(1, 0.9, 10), "retry.factor"),
            (exponential(1, 10.1, 10), "retry.factor"),
            (exponential(11, 2.0, 10), "retry.cap"),
            (exponential(1, 2.0, CAP_MAX.millis() + 1), "retry.cap"),
            (exponential(BASE_MAX.millis() + 1, 2.0, CAP_MAX.millis()), "retry.base"),
        ];
        for (policy, field) in cases {
            let mut found = Violations::default();
            policy.check(&mut found);
            assert_eq!(found.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(), [field], "{policy:?}");
        }
    }

    proptest! {
        #[test]
        fn a_delay_never_passes_its_ceiling_and_never_changes(
            base in 0_u64..100_000, factor in 1.0_f64..10.0, cap in 100_000_u64..600_000_000,
            attempt in 1_u32..=100, seed: u64,
        ) {
            let policy = exponential(base, factor, cap);
            let delay = policy.delay(attempt, seed);
            prop_assert!(delay <= policy.ceiling(attempt));
            prop_assert!(policy.ceiling(attempt) <= policy.ceiling(attempt + 1));
            prop_assert!(policy.ceiling(attempt) <= policy.cap);
            prop_assert_eq!(delay, policy.delay(attempt, seed));
            let steady = RetryPolicy { jitter: Jitter::None, ..policy };
            prop_assert_eq!(steady.delay(attempt, seed), steady.ceiling(attempt));
        }
    }
}
