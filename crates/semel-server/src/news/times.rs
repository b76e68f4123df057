//! How long handlers take, per queue: what lease advice is given from.

use std::collections::HashMap;
use std::sync::Mutex;

use hdrhistogram::Histogram;
use semel_core::name::QueueName;
use semel_core::time::Millis;

/// Longest time told apart. A handler that takes longer is counted as this long.
const LONGEST: u64 = 12 * 3600 * 1000;

/// Digits kept: 1 % is more than advice needs, and a queue costs a few kilobytes.
const DIGITS: u8 = 2;

/// When this many were measured, half of each count is forgotten, so that advice follows a handler that has changed.
const FORGET_AT: u64 = 20_000;

/// Handler times of every queue that has had a settle here.
#[derive(Debug, Default)]
pub struct HandlerTimes(Mutex<HashMap<QueueName, Histogram<u32>>>);

/// What was measured of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How many deliveries.
    pub count: u64,
    /// Half of them were shorter.
    pub p50: Millis,
    /// All but one in a hundred were shorter.
    pub p99: Millis,
}

impl HandlerTimes {
    /// Notes how long one delivery took.
    pub fn note(&self, queue: &QueueName, took: Millis) {
        let mut all = self.lock();
        if !all.contains_key(queue) {
            let empty =
                Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are constants that fit");
            all.insert(queue.clone(), empty);
        }
        if let Some(histogram) = all.get_mut(queue) {
            histogram.saturating_record(took.millis().clamp(1, LONGEST));
            if histogram.len() >= FORGET_AT {
                fade(histogram);
            }
        }
    }

    /// What is known of a queue; `None` before its first settle.
    pub fn of(&self, queue: &QueueName) -> Option<Times> {
        let all = self.lock();
        let histogram = all.get(queue)?;
        let at = |q| Millis::from_millis(histogram.value_at_quantile(q));
        Some(Times { count: histogram.len(), p50: at(0.5), p99: at(0.99) })
    }

    /// Forgets a queue that is gone.
    pub fn forget(&self, queue: &QueueName) {
        self.lock().remove(queue);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<QueueName, Histogram<u32>>> {
        self.0.lock().expect("no one panics while holding the times")
    }
}

/// Halves every count.
fn fade(histogram: &mut Histogram<u32>) {
    let counts: Vec<_> =
        histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
    histogram.reset();
    for (value, count) in counts {
        histogram.saturating_record_n(value.min(LONGEST), count.div_ceil(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_a_handler_that_has_changed() {
        let times = HandlerTimes::default();
        let queue = QueueName::try_from("q").unwrap();
        assert_eq!(times.of(&queue), None);
        (0..FORGET_AT).for_each(|_| times.note(&queue, Millis::from_millis(10)));
        assert!(times.of(&queue).unwrap().p99.millis() <= 11);
        (0..FORGET_AT).for_each(|_| times.note(&queue, Millis::from_secs(5)));
        let after = times.of(&queue).unwrap();
        assert!(after.p50.millis() > 4900, "{after:?}");
        assert!(after.count < FORGET_AT, "{after:?}");
    }
}
