//! How a store itself is, besides the jobs in it.

/// What a store holds and what it stands on.
///
/// All of it is found out without reading through what is stored, so that it can be asked for every few seconds. Counts
/// are therefore rough, and what a store has no way to know is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Idempotency keys that are kept, roughly: those of dropped jobs may be counted until the next cleaning.
    pub keys: u64,
    /// Bytes that the store takes up.
    pub bytes: Option<u64>,
    /// Of these, bytes of a log that is not yet part of the rest.
    pub log_bytes: Option<u64>,
    /// Bytes that are free where it is kept.
    pub free_bytes: Option<u64>,
    /// With fewer free bytes than this it takes no new jobs.
    pub reserve_bytes: Option<u64>,
    /// Whether it takes no new jobs now. That begins with a little more free than the reserve, and ends with yet more.
    pub full: bool,
}
