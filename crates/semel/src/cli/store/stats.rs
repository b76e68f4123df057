//! `semel store stats`.

use std::fmt::Write;
use std::path::Path;

use semel_store_embedded::inspect::{Inspection, QueueCounts, inspect};
use serde_json::json;

use super::super::{Outcome, print, print_json};
use super::Target;
use crate::failure::Failure;
use crate::text;

pub(super) const EXAMPLES: &str = "\
Counts are those on disk. Leases are in memory only, so a job that a worker has counts as
unfinished here.

Examples:
  semel store stats /var/lib/semel           sizes of its files, jobs of each queue
  semel store stats /var/lib/semel --json    the same, for a program";

/// Shows what a store's directory holds.
pub(super) fn run(target: &Target) -> Result<Outcome, Failure> {
    let inspection = inspect(&target.dir).map_err(Failure::store(&target.dir))?;
    if target.json {
        print_json(&json!({ "dir": target.dir, "stats": inspection }))?;
    } else {
        print(&render(&target.dir, &inspection))?;
    }
    Ok(Outcome::Good)
}

fn render(dir: &Path, seen: &Inspection) -> String {
    let lines = [
        format!("{}: format {}, epoch {}", dir.display(), seen.format, seen.epoch),
        format!(
            "  database   {:>10}   {} of it free for new rows",
            text::bytes(seen.database_bytes),
            text::bytes(seen.free_bytes)
        ),
        format!("  log        {:>10}", text::bytes(seen.log_bytes)),
        format!("  key index  {:>10}   in {} runs", text::bytes(seen.key_bytes), text::count(seen.key_runs)),
        String::new(),
    ];
    lines.join("\n") + &queues(&seen.queues)
}

fn queues(queues: &[QueueCounts]) -> String {
    if queues.is_empty() {
        return "  no queues\n".into();
    }
    let widest = queues.iter().map(|q| q.queue.as_str().len()).max().unwrap_or(0).max("queue".len());
    let mut out = format!(
        "\n  {:widest$}  {:>13} {:>13} {:>13} {:>13}\n",
        "queue", "unfinished", "completed", "dead", "cancelled"
    );
    for QueueCounts { queue, unfinished, completed, dead, cancelled } in queues {
        let [unfinished, completed, dead, cancelled] =
            [unfinished, completed, dead, cancelled].map(|n| text::count(*n));
        let queue = queue.as_str();
        writeln!(out, "  {queue:widest$}  {unfinished:>13} {completed:>13} {dead:>13} {cancelled:>13}")
            .expect("a String takes everything");
    }
    out
}
