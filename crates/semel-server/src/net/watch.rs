//! The watch over one connection: whatever it waits for, the wait ends.
//!
//! There is one timer per connection, and it is moved only when a deadline is nearer than the one it is set to. A busy
//! keep-alive connection goes from idle to busy and back thousands of times without touching it: timers of its own per
//! request, as hyper has them, cost an allocation and two visits to the timer's lock each.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::limits::Limits;
use super::pulse::{Phase, Pulse};

/// What a connection waits for, since when.
pub(super) struct Watch {
    limits: Limits,
    phase: Phase,
    /// The request that is, or was last, running.
    request: usize,
    since: Instant,
    /// When the body of the running request was first waited for.
    body_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Watch {
    /// A watch over a connection that began at `start`, and has sent the first bytes of a head.
    pub(super) fn new(limits: Limits, start: Instant) -> Self {
        let timer = Box::pin(sleep_until(start + limits.header_timeout));
        Self { limits, phase: Phase::Head, request: 0, since: start, body_since: None, timer }
    }

    /// Looks at the connection after each of its turns. Ready with what was waited for when that took too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, pulse: &Pulse) -> Poll<Phase> {
        self.look(pulse);
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.timer.deadline() >= deadline {
                return Poll::Ready(self.phase);
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// The connection was asked to end. A peer that sends nothing more has as long for its farewell as for a head.
    pub(super) fn hurry(&mut self) {
        self.since = Instant::now();
        self.limits.idle_timeout = self.limits.header_timeout;
    }

    fn look(&mut self, pulse: &Pulse) {
        let (phase, request) = (pulse.phase(), pulse.begun());
        if (phase, request) == (self.phase, self.request) {
            return;
        }
        self.since = Instant::now();
        if request != self.request {
            self.body_since = None;
        }
        if phase == Phase::Body {
            // A body that comes in drips is many waits, and one deadline.
            self.body_since.get_or_insert(self.since);
        }
        (self.phase, self.request) = (phase, request);
    }

    /// When the present wait is over. Our own answer has all the time it needs: a lease may wait for a job.
    fn deadline(&self) -> Option<Instant> {
        let limits = &self.limits;
        let after = |since: Instant, limit: Duration| Some(since + limit);
        match self.phase {
            Phase::Idle => after(self.since, limits.idle_timeout),
            Phase::Head => after(self.since, limits.header_timeout),
            Phase::Body => after(self.body_since.unwrap_or(self.since), limits.body_timeout),
            Phase::Stalled => after(self.since, limits.write_timeout),
            Phase::Busy => None,
        }
    }
}
