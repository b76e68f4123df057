//! What a connection is doing, told by those who do it and read by the watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Which HTTP a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Http1,
    Http2,
}

/// What a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// For a request to begin.
    Idle,
    /// For the rest of a head.
    Head,
    /// For the rest of a body, which a handler wants to read.
    Body,
    /// For our own answer.
    Busy,
    /// For the client to take what we send.
    Stalled,
}

/// What moves on one connection. All of it is advice for the watch, so that no order among the fields matters.
#[derive(Debug)]
pub(super) struct Pulse {
    speech: Speech,
    /// Requests whose answer is not yet sent.
    running: AtomicUsize,
    /// Requests that have begun, ever.
    begun: AtomicUsize,
    /// Bytes came while no request was running: a head has begun.
    heard: AtomicBool,
    /// A handler waits for a body.
    wants_body: AtomicBool,
    /// The last write found no room.
    stalled: AtomicBool,
}

impl Pulse {
    /// Nothing has moved yet.
    pub(super) fn new(speech: Speech) -> Self {
        Self {
            speech,
            running: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            heard: AtomicBool::new(false),
            wants_body: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
        }
    }

    /// Which HTTP is spoken.
    pub(super) fn speech(&self) -> Speech {
        self.speech
    }

    /// What is being waited for.
    pub(super) fn phase(&self) -> Phase {
        let running = self.running.load(Relaxed) > 0;
        match (self.stalled.load(Relaxed), running) {
            (true, _) => Phase::Stalled,
            (false, true) if self.wants_body.load(Relaxed) => Phase::Body,
            (false, true) => Phase::Busy,
            (false, false) if self.heard.load(Relaxed) => Phase::Head,
            (false, false) => Phase::Idle,
        }
    }

    /// How many requests have begun.
    pub(super) fn begun(&self) -> usize {
        self.begun.load(Relaxed)
    }

    /// Bytes came in. On HTTP/2 they need not be of a request: peers also ask whether we are there.
    pub(super) fn received(&self) {
        if self.speech == Speech::Http1 && self.running.load(Relaxed) == 0 {
            self.heard.store(true, Relaxed);
        }
    }

    /// A write found room, or did not.
    pub(super) fn wrote(&self, room: bool) {
        self.stalled.store(!room, Relaxed);
    }

    /// A handler waits for a body, or does not any more.
    pub(super) fn wants_body(&self, wants: bool) {
        self.wants_body.store(wants, Relaxed);
    }
}

/// A request that is running, from its head to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Running(Arc<Pulse>);

impl Running {
    /// A request begins.
    pub(super) fn begin(pulse: &Arc<Pulse>) -> Self {
        pulse.running.fetch_add(1, Relaxed);
        pulse.begun.fetch_add(1, Relaxed);
        pulse.heard.store(false, Relaxed);
        pulse.wants_body.store(false, Relaxed);
        Self(pulse.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_through_its_phases() {
        let pulse = Arc::new(Pulse::new(Speech::Http1));
        assert_eq!(pulse.phase(), Phase::Idle);
        pulse.received();
        assert_eq!(pulse.phase(), Phase::Head);
        let request = Running::begin(&pulse);
        assert_eq!(pulse.phase(), Phase::Busy);
        pulse.wants_body(true);
        assert_eq!(pulse.phase(), Phase::Body);
        pulse.received();
        pulse.wants_body(false);
        assert_eq!(pulse.phase(), Phase::Busy, "bytes of a body are no head");
        pulse.wrote(false);
        assert_eq!(pulse.phase(), Phase::Stalled);
        pulse.wrote(true);
        drop(request);
        assert_eq!((pulse.phase(), pulse.begun()), (Phase::Idle, 1));
    }

    #[test]
    fn bytes_between_requests_of_http_2_begin_no_head() {
        let pulse = Pulse::new(Speech::Http2);
        pulse.received();
        assert_eq!(pulse.phase(), Phase::Idle);
    }
}
