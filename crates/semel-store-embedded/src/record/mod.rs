//! The rows' own format: compact, versioned, and checked on every read.
//!
//! Every record ends in a checksum that is seeded with the row's id. SQLite checks frames of its log but not pages of
//! its database, so this is what finds a flipped bit, and also a record that turns up under another row's id.

mod job;
mod progress;
mod trace;
mod wire;

pub(crate) use job::{decode_job, encode_job, is_stripped};
pub(crate) use progress::{decode_progress, encode_progress};
pub(crate) use trace::{Trace, decode_trace, encode_trace};
pub(crate) use wire::{Damage, open_json, open_numbers, seal_json, seal_numbers};

/// The version byte that starts every record.
const VERSION: u8 = 1;
