//! The history of a simulation: every call, before it is made and after it was answered.

use std::sync::Arc;

use semel_proof::history::{Answer, Call, Entry, Op};
use semel_proof::recorder::{Recorder, Tape};
use semel_store::Clock;

use crate::clock::SimClock;

/// Takes down what everybody asked and was told.
pub(crate) struct Journal {
    recorder: Recorder,
    tape: Tape,
    clock: Arc<SimClock>,
}

/// A call that is under way. Dropped without an answer, because its caller crashed, it is unknown.
pub(crate) struct Open {
    journal: Arc<Journal>,
    op: Op,
    told: bool,
}

impl Journal {
    pub(crate) fn new(clock: Arc<SimClock>) -> Arc<Self> {
        let (recorder, tape) = Recorder::in_memory();
        Arc::new(Self { recorder, tape, clock })
    }

    /// Writes down something that is not a call.
    pub(crate) fn note(&self, entry: Entry) {
        self.recorder.write([entry]).unwrap();
    }

    /// Writes down that a call is about to be made.
    pub(crate) fn open(self: &Arc<Self>, call: &Call) -> Open {
        let op = self.recorder.invoke(self.clock.now(), [call].into_iter()).unwrap();
        Open { journal: self.clone(), op, told: false }
    }

    /// Everything written.
    pub(crate) fn take(&self) -> String {
        self.tape.take()
    }
}

impl Open {
    /// It took effect.
    pub(crate) fn ok(mut self, answer: Answer) {
        let at = self.journal.clock.now();
        self.close(Entry::Ok { op: self.op, at, answer });
    }

    /// It was refused.
    pub(crate) fn fail(mut self, why: &str) {
        self.close(Entry::Fail { op: self.op, why: why.into() });
    }

    /// Nobody knows.
    pub(crate) fn unknown(mut self, why: &str) {
        self.close(Entry::Unknown { op: self.op, why: why.into() });
    }

    fn close(&mut self, entry: Entry) {
        self.told = true;
        self.journal.note(entry);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.told {
            self.close(Entry::Unknown { op: self.op, why: "gone".into() });
        }
    }
}
