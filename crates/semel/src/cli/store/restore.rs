//! `semel store restore`.

use std::time::Instant;

use semel_store_embedded::backup::restore;

use super::super::Outcome;
use super::watch::Watch;
use super::{Copy, backup};
use crate::failure::Failure;

pub(super) const EXAMPLES: &str = "\
The store is as it was when the backup was made: jobs published since are not in it, and jobs
settled since will be delivered again. Lease tokens handed out since are void. The backup is left
as it is.

Examples:
  semel store restore /backup/monday /var/lib/semel-new
  semel store check /var/lib/semel-new";

/// Makes a store from a backup.
pub(super) fn run(copy: &Copy) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let mut watch = Watch::new();
    restore(&copy.from, &copy.to, &mut |seen| watch.see(seen)).map_err(Failure::store(&copy.from))?;
    watch.finish();
    backup::tell(copy, "restored", start)
}
