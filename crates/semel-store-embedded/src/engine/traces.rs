//! The trace of suppressed publishes. It informs people and is never waited for: it gathers in memory and rides on a
//! later commit, many at once and in id order, because each one alone would dirty a page of its own.

use std::collections::BTreeMap;

use semel_core::ids::JobId;
use semel_core::time::{Millis, Timestamp};
use semel_store::Suppressed;

use super::Engine;
use crate::fault::Fault;
use crate::record::{Trace, decode_trace, encode_trace};

/// How many jobs' traces gather before they are written: the more there are, the more of them share a page.
const GATHER: usize = 16_384;
/// Or how long the oldest of them waits at most, if anything commits. A crash loses no more than that.
const GATHER_TIME: Millis = Millis::from_secs(30);
/// How many of them ride on one commit: none of the callers in it should notice.
const SLICE: usize = 256;

/// Suppressed publishes that are not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    pub(super) pending: BTreeMap<JobId, Trace>,
    since: Option<Timestamp>,
    /// How many of them are on their way to the disk, a slice per commit.
    leaving: usize,
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
        let traces = &mut self.traces;
        let waited = traces.since.is_some_and(|since| self.now.since(since) >= GATHER_TIME);
        if traces.leaving == 0 && (waited || traces.pending.len() >= GATHER) {
            traces.leaving = traces.pending.len();
            traces.since = None;
        }
        let slice = traces.leaving.min(SLICE);
        self.write_first_traces(slice)
    }

    pub(super) fn flush_traces(&mut self) -> Result<(), Fault> {
        self.write_first_traces(self.traces.pending.len())
    }

    /// In the order of ids, so that neighbours share the page they are written to.
    fn write_first_traces(&mut self, n: usize) -> Result<(), Fault> {
        self.traces.leaving = self.traces.leaving.saturating_sub(n);
        for _ in 0..n {
            let Some((id, newer)) = self.traces.pending.pop_first() else { break };
            let mut trace = self.stored_trace(id)?;
            trace.extend(newer);
            encode_trace(&mut self.buffer, id, &trace);
            self.db.trace.put(id, &self.buffer)?;
        }
        Ok(())
    }

    pub(super) fn forget_pending_trace(&mut self, id: JobId) {
        self.traces.pending.remove(&id);
    }
}
