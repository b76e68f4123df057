//! The key index: from the hash of an idempotency key to the ids of the jobs that may hold it.
//!
//! The truth is elsewhere, in the job rows. This index only *locates candidates*: whoever asks reads the row and compares
//! the whole key, so an entry too many costs one read. An entry too few is a duplicate job, which is why almost everything
//! here is about never losing one: not in a crash, not to a flipped bit, not by a caller's mistake.
//!
//! ```text
//!   insert --> head (map in memory)                    newest ids
//!                | full, and durable in the truth
//!                v
//!              frozen maps, at most `max_frozen`        still searched from memory
//!                | sealed by a background thread
//!                v
//!              runs: immutable files, one Bloom filter each in memory
//!                | `merge_fan` alike and adjacent
//!                v
//!              larger runs                              oldest ids
//! ```
//!
//! Every segment (a frozen map or a run) covers a range of ids `(lo, hi]` *completely*: each keyed row in the range had its
//! entry put there. Ranges are disjoint and chain without a gap, so an id belongs to exactly one place, and reopening needs
//! only the rows above the last run. Because the runs are in id order, which is time order, expiry unlinks whole old files.
//!
//! The index is plain files and not tables of the database: what is derived need not go through a log, is written once
//! instead of twice, and dropping a run is an unlink.

mod bloom;
mod error;
mod fault;
mod format;
mod hasher;
mod index;
mod lookup;
mod map;
mod merge;
mod open;
mod options;
mod range;
mod run;
mod segment;
mod stream;
mod upkeep;
mod verify;
mod worker;
mod writer;

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod damage_test;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod upkeep_test;

pub use error::KeyIndexError;
pub use fault::{Fault, How, Stage, Step, Work};
pub use hasher::{HasherId, KeyHasher};
pub use index::KeyIndex;
pub use open::{Damage, Recovery};
pub use options::Options;
pub use range::{Entry, IdRange, RunInfo};
pub use stream::RunEntries;
pub use verify::{Verified, Verifier};
