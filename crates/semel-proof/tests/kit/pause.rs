//! Waiting that ends early when there is no more reason to wait.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A sign that everybody can wait for, and that is given once.
#[derive(Default)]
pub(crate) struct Sign {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Sign {
    pub(crate) fn give(&self) {
        *self.given.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_given(&self) -> bool {
        *self.given.lock().unwrap()
    }

    /// Waits for the sign, at most this long. True if it was given.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let given = self.given.lock().unwrap();
        *self.changed.wait_timeout_while(given, limit, |given| !*given).unwrap().0
    }
}

/// Lets time pass: for faults that are a length of time, and between two looks at another process.
pub(crate) fn pass(time: Duration) {
    // A sign that nobody gives.
    Sign::default().wait(time);
}

/// Looks until `found` has something; fails the test after `limit`.
pub(crate) fn until<T>(what: &str, limit: Duration, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        pass(Duration::from_millis(20));
    }
}
