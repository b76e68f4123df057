//! Trying again: how long, how often, and when not.

use std::time::Duration;

use tokio::time::Instant;

use super::exchange::Ask;
use super::{Client, Code, Error, Failure, Problem, Reply};

/// The wait after the first failure: about what a server takes that had to restart a connection.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The longest wait of our own making. A server that is back is noticed within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How much later than `Retry-After` we may come back, as a fraction of it: those who were turned away together must not
/// come back together.
const SPREAD: f64 = 0.25;

/// The tries of one call, under one deadline.
#[derive(Debug)]
pub(super) struct Tries {
    end: Instant,
    each: Duration,
    count: u32,
    maybe_done: bool,
    once: bool,
    hopeful: bool,
}

impl Tries {
    /// Tries that end after `whole`, none longer than `each`.
    ///
    /// Those that are not `hopeful` end when nobody listens at the first of them.
    pub(super) fn within(whole: Duration, each: Duration, hopeful: bool) -> Self {
        // A deadline that no clock reaches is a very long one.
        let end = Instant::now().checked_add(whole);
        let end = end.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400 * 365));
        Self { end, each, count: 0, maybe_done: false, once: false, hopeful }
    }

    /// Tries of a call that must not happen twice, or may.
    pub(super) fn once(self, once: bool) -> Self {
        Self { once, ..self }
    }

    /// Tries of another call under the same deadline.
    pub(super) fn anew(&self) -> Self {
        Self { count: 0, maybe_done: false, ..*self }
    }

    /// How long the next try may take, if the server was asked to hold its answer so long.
    pub(super) fn next(&self, hold: Duration) -> Duration {
        let left = self.end.saturating_duration_since(Instant::now());
        left.min(self.each.saturating_add(hold))
    }

    /// What is left of the time.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// After a failure: waits for the time of the next try, or ends the call. It ends at once if that time is past the
    /// deadline, for waiting would change nothing.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), Error> {
        self.count += 1;
        let asked = match &failure {
            Failure::Problem(problem) if !problem.retryable => return Err(Error::Refused(problem.clone())),
            Failure::Problem(problem) => {
                self.maybe_done |= leaves_open(problem);
                problem.retry_after
            }
            Failure::Unanswered(_) | Failure::Nonsense(_) => {
                self.maybe_done = true;
                None
            }
            Failure::Unreachable(_) => None,
        };
        let wait = wait(self.count, asked, rand::random());
        if wait >= self.left() || !self.is_worth_another(&failure) {
            let (tries, maybe_done) = (self.count, self.maybe_done);
            return Err(Error::Deadline { tries, maybe_done, last: Box::new(failure) });
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Whether another try could end otherwise, and does no harm.
    fn is_worth_another(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Nonsense(_) => false,
            Failure::Unreachable(_) if self.count == 1 && !self.hopeful => false,
            _ => !(self.once && self.maybe_done),
        }
    }
}

/// Whether it may have happened: the server does not know, or a proxy does not know what became of the server.
fn leaves_open(problem: &Problem) -> bool {
    match &problem.code {
        Code::UnknownOutcome => true,
        Code::Other(_) => matches!(problem.status, 502 | 504),
        _ => false,
    }
}

/// How long to wait after so many failures, with a random number from 0 to 1. Anything up to the full backoff, so that
/// clients that failed together spread over it; but not before the server wants to be asked again.
fn wait(failures: u32, asked: Option<Duration>, random: f64) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let own = doubled.min(LONGEST_WAIT).mul_f64(random);
    asked.map_or(own, |asked| {
        let late = Duration::try_from_secs_f64(asked.as_secs_f64() * SPREAD * random).unwrap_or_default();
        own.max(asked.saturating_add(late))
    })
}

impl Client {
    /// Sends a request until it is answered, refused, or the deadline is over.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Reply, Error> {
        let mut tries = self.tries(ask.hold).once(ask.once);
        loop {
            match self.exchange(ask, tries.next(ask.hold)).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_to_a_limit_and_are_spread() {
        assert_eq!(wait(1, None, 1.0), FIRST_WAIT);
        assert_eq!(wait(3, None, 1.0), FIRST_WAIT * 4);
        assert_eq!(wait(3, None, 0.25), FIRST_WAIT);
        assert_eq!(wait(u32::MAX, None, 1.0), LONGEST_WAIT);
        assert_eq!(wait(9, None, 0.0), Duration::ZERO);
    }

    #[test]
    fn nobody_comes_back_before_the_server_wants_it() {
        assert_eq!(wait(1, Some(2 * SEC), 0.0), 2 * SEC);
        assert_eq!(wait(1, Some(2 * SEC), 1.0), 2 * SEC + SEC / 2);
        assert!(wait(1, Some(Duration::MAX), 1.0) >= Duration::MAX / 2);
    }
}
