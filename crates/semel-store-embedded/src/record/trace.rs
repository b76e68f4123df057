//! The trace of suppressed publishes: how many, and the last few.

use semel_core::ids::JobId;
use semel_store::Suppressed;
use semel_store::query::SUPPRESSED_MAX;

use super::wire::{Damage, Reader, begin, put_bytes, put_time, put_varint, seal};

/// The suppressed publishes of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) count: u32,
    pub(crate) last: Vec<Suppressed>,
}

impl Trace {
    /// Notes one more, and forgets the oldest past the limit.
    pub(crate) fn add(&mut self, one: Suppressed) {
        self.count = self.count.saturating_add(1);
        if self.last.len() == SUPPRESSED_MAX {
            self.last.remove(0);
        }
        self.last.push(one);
    }

    /// Adds what came later.
    pub(crate) fn extend(&mut self, later: Trace) {
        let unseen = later.count.saturating_sub(u32::try_from(later.last.len()).unwrap_or(u32::MAX));
        later.last.into_iter().for_each(|one| self.add(one));
        self.count = self.count.saturating_add(unseen);
    }
}

/// Writes a trace.
pub(crate) fn encode_trace(out: &mut Vec<u8>, id: JobId, trace: &Trace) {
    begin(out);
    put_varint(out, u64::from(trace.count));
    put_varint(out, trace.last.len() as u64);
    for one in &trace.last {
        put_time(out, one.at, id.time());
        out.push(u8::from(one.payload_matches) | if one.publisher.is_some() { 2 } else { 0 });
        if let Some(publisher) = &one.publisher {
            put_bytes(out, publisher.as_bytes());
        }
    }
    seal(out, id.raw());
}

/// Reads a trace.
pub(crate) fn decode_trace(record: &[u8], id: JobId) -> Result<Trace, Damage> {
    let mut r = Reader::open(record, id.raw())?;
    let count = r.small()?;
    let entries = r.small()?;
    let mut last = Vec::new();
    for _ in 0..entries {
        let at = r.time(id.time())?;
        let bits = r.byte()?;
        let publisher = if bits & 2 != 0 { Some(r.text()?.to_owned()) } else { None };
        last.push(Suppressed { at, publisher, payload_matches: bits & 1 != 0 });
    }
    Ok(Trace { count, last })
}
