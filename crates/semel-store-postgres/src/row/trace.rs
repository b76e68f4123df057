//! `semel.trace`: the publishes that were answered with an earlier one's job.

use std::collections::VecDeque;

use semel_core::ids::JobId;
use semel_core::time::Timestamp;
use semel_store::Suppressed;
use serde::{Deserialize, Serialize};

use super::{Cells, columns, count, sql_count, sql_id};
use crate::fault::Fault;

/// The columns of a trace, for a `SELECT` in which the table is `t`. [`TraceRow::read`] reads them.
macro_rules! trace_columns {
    () => {
        "t.duplicates, t.suppressed"
    };
}
pub(crate) use trace_columns;

/// The suppressed publishes of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TraceRow {
    /// How many there were.
    pub(crate) duplicates: u32,
    /// The newest, oldest first.
    pub(crate) suppressed: VecDeque<Suppressed>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    payload_matches: bool,
}

impl TraceRow {
    /// Reads the next two cells, those of `trace_columns`; an empty trace if there is no such row.
    pub(crate) fn read(cells: &mut Cells<'_>, id: i64) -> Result<Self, Fault> {
        let (duplicates, text): (Option<i32>, Option<&str>) = (cells.take()?, cells.take()?);
        let Some((duplicates, text)) = duplicates.zip(text) else { return Ok(Self::default()) };
        let entries: Vec<Entry> = serde_json::from_str(text)
            .map_err(|_| Fault::damaged("trace", id, "its suppressed publishes cannot be read"))?;
        Ok(Self { duplicates: count(duplicates), suppressed: entries.into_iter().map(read_entry).collect() })
    }
}

fn read_entry(entry: Entry) -> Suppressed {
    Suppressed { at: entry.at, publisher: entry.publisher, payload_matches: entry.payload_matches }
}

fn write_entry(one: &Suppressed) -> Entry {
    Entry { at: one.at, publisher: one.publisher.clone(), payload_matches: one.payload_matches }
}

columns! {
    /// Traces, to be inserted or rewritten.
    TraceColumns {
        job: i64 => INT8_ARRAY,
        duplicates: i32 => INT4_ARRAY,
        suppressed: String => TEXT_ARRAY,
    }
}

impl TraceColumns {
    /// Adds the trace of a job.
    pub(crate) fn push<'a>(
        &mut self,
        id: JobId,
        duplicates: u32,
        suppressed: impl IntoIterator<Item = &'a Suppressed>,
    ) {
        let entries: Vec<_> = suppressed.into_iter().map(write_entry).collect();
        self.job.push(sql_id(id));
        self.duplicates.push(sql_count(duplicates));
        self.suppressed.push(serde_json::to_string(&entries).expect("text and numbers always serialise"));
    }
}
