//! Waiting for another process, with an end.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a server may take to start, stop or catch up. Sound ones take a second; this is for machines that swap.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until there is something to see, or time is up. Programs that were not written to signal us are looked at;
/// a hundredth of a second is short beside what they do.
pub(crate) fn until<T, E>(
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}
