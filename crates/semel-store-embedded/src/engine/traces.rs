//! The trace of suppressed publishes. It informs people and is never waited for: it gathers in memory and rides on a
//! later commit, many at once and in id order, because each one alone would dirty a page of its own.

use std::collections::HashMap;

use semel_core::ids::JobId;
use semel_core::time::{Millis, Timestamp};
use semel_store::Suppressed;

use super::Engine;
use crate::fault::Fault;
use crate::record::{Trace, decode_trace, encode_trace};

/// How many jobs' traces gather before they are written.
const GATHER: usize = 512;
/// Or how long the oldest of them waits at most, if anything commits.
const GATHER_TIME: Millis = Millis::from_secs(1);

/// Suppressed publishes that are not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    pub(super) pending: HashMap<JobId, Trace>,
    since: Option<Timestamp>,
}

impl Engine<'_> {
    pub(super) fn note_suppressed(&mut self, id: JobId, one: Suppressed) {
        self.traces.since.get_or_insert(self.now);
        self.traces.pending.entry(id).or_default().add(one);
    }

    /// What is known of the suppressed publishes of a job, on disk and not yet.
    pub(super) fn trace_of(&mut self, id: JobId) -> Result<Trace, Fault> {
        let mut trace = self.stored_trace(id)?;
        if let Some(pending) = self.traces.pending.get(&id) {
            trace.extend(pending.clone());
        }
        Ok(trace)
    }

    fn stored_trace(&mut self, id: JobId) -> Result<Trace, Fault> {
        let read = self.db.trace.get(id, |rec| decode_trace(rec, id))?;
        read.transpose().map(Option::unwrap_or_default).map_err(|damage| Fault::damaged("trace", id, damage))
    }

    pub(super) fn write_traces(&mut self) -> Result<(), Fault> {
        let waited = self.traces.since.is_some_and(|since| self.now.since(since) >= GATHER_TIME);
        if waited || self.traces.pending.len() >= GATHER { self.flush_traces() } else { Ok(()) }
    }

    pub(super) fn flush_traces(&mut self) -> Result<(), Fault> {
        let mut pending: Vec<_> = std::mem::take(&mut self.traces).pending.into_iter().collect();
        pending.sort_unstable_by_key(|(id, _)| *id);
        for (id, newer) in pending {
            let mut trace = self.stored_trace(id)?;
            trace.extend(newer);
            encode_trace(&mut self.buffer, id, &trace);
            self.db.trace.put(id, &self.buffer)?;
        }
        Ok(())
    }

    pub(super) fn forget_trace(&mut self, id: JobId) -> Result<(), Fault> {
        self.traces.pending.remove(&id);
        self.db.trace.delete(id)?;
        Ok(())
    }
}
