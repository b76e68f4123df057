//! `semel store rebuild-index`.

use std::time::Instant;

use semel_store_embedded::rebuild::rebuild_index;
use serde_json::json;

use super::super::{Outcome, print, print_json};
use super::Target;
use super::watch::Watch;
use crate::failure::Failure;
use crate::text;

pub(super) const EXAMPLES: &str = "\
The key index finds the job that holds a key. It is derived from the jobs, so it can always be made
anew; a store does so by itself when a part of it is missing. Nobody else may have the store open.

Examples:
  semel store rebuild-index /var/lib/semel     when a check found fault with the key index";

/// Makes the key index anew.
pub(super) fn run(target: &Target) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let mut watch = Watch::new();
    let rebuilt =
        rebuild_index(&target.dir, &mut |seen| watch.see(seen)).map_err(Failure::store(&target.dir))?;
    watch.finish();
    if target.json {
        let seconds = start.elapsed().as_secs_f64();
        print_json(
            &json!({ "dir": target.dir, "jobs": rebuilt.jobs, "keys": rebuilt.keys, "seconds": seconds }),
        )?;
    } else {
        let (jobs, keys) = (text::count(rebuilt.jobs), text::count(rebuilt.keys));
        let took = text::span(start.elapsed());
        print(&format!("{}: index of {keys} keys made from {jobs} jobs in {took}\n", target.dir.display()))?;
    }
    Ok(Outcome::Good)
}
