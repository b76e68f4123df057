//! The measurements, one per file. Each runs once per round and returns what it found; the report makes medians of it.

pub(crate) mod commit;
pub(crate) mod expiry;
pub(crate) mod lanes;
pub(crate) mod lives;
pub(crate) mod preload;
pub(crate) mod restart;
pub(crate) mod single;
