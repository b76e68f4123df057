//! `semel store backup`.

use std::time::Instant;

use semel_store_embedded::backup::backup;
use semel_store_embedded::inspect::inspect;
use serde_json::json;

use super::super::{Outcome, print, print_json};
use super::Copy;
use super::watch::Watch;
use crate::failure::Failure;
use crate::text;

pub(super) const EXAMPLES: &str = "\
The copy is the store as it was at one moment, and a store itself: it can be checked, and opened
after a restore. Publishing goes on meanwhile. The key index is not copied; it is made anew from
the jobs.

Examples:
  semel store backup /var/lib/semel /backup/monday
  semel store check /backup/monday                      a backup that was never checked is a hope";

/// Copies a store.
pub(super) fn run(copy: &Copy) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let mut watch = Watch::new();
    backup(&copy.from, &copy.to, &mut |seen| watch.see(seen)).map_err(Failure::store(&copy.from))?;
    watch.finish();
    tell(copy, "backed up", start)
}

/// Says what was copied, as the copy itself has it.
pub(super) fn tell(copy: &Copy, done: &str, start: Instant) -> Result<Outcome, Failure> {
    let (from, to) = (&copy.from, &copy.to);
    let bytes = inspect(to).map_err(Failure::store(to))?.database_bytes;
    if copy.json {
        print_json(
            &json!({ "from": from, "to": to, "bytes": bytes, "seconds": start.elapsed().as_secs_f64() }),
        )?;
    } else {
        let (size, took) = (text::bytes(bytes), text::span(start.elapsed()));
        print(&format!("{} {done} to {}: {size} in {took}\n", from.display(), to.display()))?;
    }
    Ok(Outcome::Good)
}
