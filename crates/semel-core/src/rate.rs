//! The rate limit of a queue: how many jobs may go out in a span of time.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Timestamp};
use crate::violation::Violations;

/// Most jobs a rate or a burst may name: more than one node delivers, and small enough to count exactly in 64 bits.
pub const COUNT_MAX: u32 = 1_000_000;

/// Longest span a rate may be counted over.
pub const PER_MAX: Millis = Millis::from_days(1);

/// At most `count` jobs in `per`, and at most `burst` of them at once after a quiet time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimit {
    /// How many jobs.
    pub count: u32,
    /// In what span of time.
    pub per: Millis,
    /// How many of them may go out in the same moment.
    pub burst: u32,
}

impl RateLimit {
    /// How many ticks a millisecond has. The time one job uses up, `per / count`, is seldom a whole number of
    /// milliseconds; in ticks of `1 / count` milliseconds it is always `per` of them, and nothing is ever rounded.
    fn ticks_per_milli(&self) -> u64 {
        u64::from(self.count.max(1))
    }

    /// The time one job uses up, in ticks.
    fn spacing(&self) -> u64 {
        self.per.millis().max(1)
    }

    /// The time a full burst uses up, in ticks.
    fn burst_time(&self) -> u64 {
        self.spacing().saturating_mul(u64::from(self.burst.max(1)))
    }

    /// Notes everything that is wrong with the limit, under `rate.`.
    pub fn check(&self, found: &mut Violations) {
        for (field, value) in [("rate.count", self.count), ("rate.burst", self.burst)] {
            found.require((1..=COUNT_MAX).contains(&value), field, || {
                format!("must be from 1 to {COUNT_MAX}, got {value}")
            });
        }
        found.require(Millis::ZERO < self.per && self.per <= PER_MAX, "rate.per", || {
            format!("must be more than 0 and at most {PER_MAX}, got {}", self.per)
        });
    }
}

/// What has been used of a rate limit: the generic cell rate algorithm.
///
/// Its whole state is one time, up to which the jobs that went out have used up the rate. That time means the same under
/// any limit, so a changed limit takes effect at once, and a jump of the clock can cost at most one burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// The whole milliseconds of that time.
    used_until: Timestamp,
    /// The ticks on top of them: less than a millisecond.
    ticks: u32,
}

impl Bucket {
    /// How many jobs may go out now.
    pub fn available(&self, limit: &RateLimit, now: Timestamp) -> u32 {
        let free = limit.burst_time() - self.debt(limit, now);
        u32::try_from(free / limit.spacing()).unwrap_or(u32::MAX)
    }

    /// Takes up to `want` jobs and says how many were granted.
    pub fn take(&mut self, limit: &RateLimit, want: u32, now: Timestamp) -> u32 {
        let granted = want.min(self.available(limit, now));
        if granted > 0 {
            let debt = self.debt(limit, now) + limit.spacing() * u64::from(granted);
            let (millis, ticks) = (debt / limit.ticks_per_milli(), debt % limit.ticks_per_milli());
            self.used_until = now.plus(Millis::from_millis(millis));
            self.ticks = u32::try_from(ticks).expect("a remainder of a division by a u32 fits one");
        }
        granted
    }

    /// When the next job may go out: `now` if one may go at once.
    pub fn next_at(&self, limit: &RateLimit, now: Timestamp) -> Timestamp {
        let room_for_one = limit.burst_time() - limit.spacing();
        let wait = self.debt(limit, now).saturating_sub(room_for_one);
        now.plus(Millis::from_millis(wait.div_ceil(limit.ticks_per_milli())))
    }

    /// The time already used up beyond `now`, in ticks. Never more than one burst: a bucket filled under a slower limit, or
    /// before the clock went back, is just full.
    fn debt(&self, limit: &RateLimit, now: Timestamp) -> u64 {
        if self.used_until < now {
            return 0;
        }
        let whole = self.used_until.since(now).millis().saturating_mul(limit.ticks_per_milli());
        // Left over from a limit with finer ticks, they could be more than a millisecond of this one.
        let part = u64::from(self.ticks).min(limit.ticks_per_milli());
        whole.saturating_add(part).min(limit.burst_time())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    fn limit(count: u32, per_ms: u64, burst: u32) -> RateLimit {
        RateLimit { count, per: Millis::from_millis(per_ms), burst }
    }

    #[test]
    fn a_quiet_bucket_grants_a_burst_and_then_the_rate() {
        let (limit, mut bucket) = (limit(10, 1000, 3), Bucket::default());
        assert_eq!(bucket.take(&limit, 5, at(0)), 3);
        assert_eq!(bucket.take(&limit, 5, at(99)), 0);
        assert_eq!(bucket.next_at(&limit, at(99)), at(100));
        assert_eq!(bucket.take(&limit, 5, at(100)), 1);
        assert_eq!(bucket.take(&limit, 5, at(350)), 2);
        assert_eq!(bucket.take(&limit, 5, at(9000)), 3);
    }

    #[test]
    fn more_than_one_job_a_millisecond_is_counted_exactly() {
        let (limit, mut bucket) = (limit(3000, 1000, 1), Bucket::default());
        let granted: u32 = (0..1000).map(|ms| bucket.take(&limit, u32::MAX, at(ms))).sum();
        assert_eq!(granted, 1000, "a burst of one lets one go per moment");
        let (limit, mut bucket) = (RateLimit { burst: 3, ..limit }, Bucket::default());
        let granted: u32 = (0..1000).map(|ms| bucket.take(&limit, u32::MAX, at(ms))).sum();
        assert_eq!(granted, 3000);
        let (odd, mut bucket) = (RateLimit { count: 2999, burst: 4, ..limit }, Bucket::default());
        let granted: u32 = (0..10_000).map(|ms| bucket.take(&odd, u32::MAX, at(ms))).sum();
        assert_eq!(granted, 4 + 29_987, "a burst, and then the rate to the last job");
    }

    #[test]
    fn asking_for_nothing_takes_nothing() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(&limit(1, 1000, 1), 0, at(0)), 0);
        assert_eq!(bucket, Bucket::default());
    }

    #[test]
    fn a_faster_limit_takes_effect_at_once() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(&limit(1, 86_400_000, 10), 10, at(0)), 10);
        assert_eq!(bucket.next_at(&limit(1, 1000, 1), at(0)), at(1000));
    }

    #[test]
    fn a_clock_that_went_back_costs_at_most_one_burst() {
        let (limit, mut bucket) = (limit(1, 1000, 2), Bucket::default());
        assert_eq!(bucket.take(&limit, 2, at(3_600_000)), 2);
        assert_eq!(bucket.next_at(&limit, at(0)), at(1000));
    }

    #[test]
    fn every_bad_setting_is_named() {
        let mut found = Violations::default();
        limit(0, 0, COUNT_MAX + 1).check(&mut found);
        let fields = found.iter().map(|v| v.field.as_str()).collect::<Vec<_>>();
        assert_eq!(fields, ["rate.count", "rate.burst", "rate.per"]);
    }

    proptest! {
        #[test]
        fn no_span_of_time_ever_sees_more_than_the_rate_and_one_burst(
            count in 1_u32..5000, per in 1_u64..10_000, burst in 1_u32..50,
            steps in prop::collection::vec((0_u64..500, 1_u32..100), 1..60),
        ) {
            let (limit, mut bucket, mut now) = (limit(count, per, burst), Bucket::default(), 0);
            let mut grants = Vec::new();
            for (step, want) in steps {
                now += step;
                grants.push((now, u64::from(bucket.take(&limit, want, at(now)))));
            }
            for (i, (from, _)) in grants.iter().enumerate() {
                let mut sum = 0;
                for (to, granted) in &grants[i..] {
                    sum += granted;
                    prop_assert!(sum <= u64::from(burst) + (to - from) * u64::from(count) / per);
                }
            }
        }

        #[test]
        fn the_next_time_is_the_first_time_one_can_go(
            count in 1_u32..5000, per in 1_u64..10_000, burst in 1_u32..50, want in 1_u32..100, later in 0_u64..2000,
        ) {
            let (limit, mut bucket) = (limit(count, per, burst), Bucket::default());
            bucket.take(&limit, want, at(0));
            let next = bucket.next_at(&limit, at(later));
            prop_assert!(bucket.available(&limit, next) >= 1);
            if next > at(later) {
                prop_assert_eq!(bucket.available(&limit, Timestamp::from_millis(next.millis() - 1)), 0);
            }
        }
    }
}
