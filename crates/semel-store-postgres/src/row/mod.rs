//! The rows of the tables, to and from the values of `semel-core`.
//!
//! Each file knows the columns of one table: their list for a `SELECT`, how to read them, and how to gather many rows into
//! arrays for one `unnest`. Nobody else knows how a value is stored.

mod columns;
mod done;
mod job;
mod live;
pub(crate) mod metadata;
mod progress;
mod queue;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use columns::{Cells, columns};
pub(crate) use done::{DoneColumns, DoneRow, done_columns};
pub(crate) use job::{Digest, JobColumns, JobRow, Text, job_columns, read_overrides};
pub(crate) use live::{LiveColumns, LiveRow, Standing, found_in_live, live_columns};
pub(crate) use queue::{QueueRow, config, config_text, gate_text, is_free, queue_columns, secrets_text};
pub(crate) use trace::{TraceColumns, TraceRow, trace_columns};

use semel_core::ids::{JobId, Token};
use semel_core::lifecycle::State;
use semel_core::time::Timestamp;

use crate::fault::Fault;

/// A time as a column has it. What is too far away for a `bigint` is never, and so is its largest value.
pub(crate) fn sql_time(time: Timestamp) -> i64 {
    i64::try_from(time.millis()).unwrap_or(i64::MAX)
}

/// A time as a column had it.
pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// An id as a column has it.
pub(crate) fn sql_id(id: JobId) -> i64 {
    i64::try_from(id.raw()).expect("an id never uses the sign bit")
}

/// An id as a column had it.
pub(crate) fn job_id(raw: i64) -> Result<JobId, Fault> {
    let id = u64::try_from(raw).ok().and_then(JobId::from_raw);
    id.ok_or_else(|| Fault::damaged("job", raw, "its id is negative"))
}

/// A token as a column has it. The sequence they come from ends where the sign bit begins.
pub(crate) fn sql_token(token: Token) -> i64 {
    i64::try_from(token.raw()).unwrap_or(i64::MAX)
}

/// A token as a column had it.
pub(crate) fn token(raw: i64) -> Token {
    Token::from_raw(raw.cast_unsigned())
}

/// A count as a column has it.
pub(crate) fn sql_count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A count as a column had it.
pub(crate) fn count(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// A state as a column has it.
pub(crate) fn sql_state(state: State) -> i16 {
    match state {
        State::Pending => 0,
        State::Processing => 1,
        State::AwaitingAck => 2,
        State::Completed => 3,
        State::Dead => 4,
        State::Cancelled => 5,
    }
}

/// A state as a column had it.
pub(crate) fn state(code: i16) -> Option<State> {
    State::ALL.into_iter().find(|&state| sql_state(state) == code)
}
