//! `semel store check`.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use semel_store::StoreError;
use semel_store_embedded::check::{CheckReport, Findings, check};
use serde_json::json;

use super::super::{Outcome, print, print_json};
use super::Target;
use super::watch::Watch;
use crate::failure::Failure;
use crate::text;

pub(super) const EXAMPLES: &str = "\
Reads everything: the checksum of every record, the key index against the jobs, the lists and
counts against both, and the pages of the file. Nobody else may have the store open: stop the
server first, or check a backup.

Examples:
  semel store check /var/lib/semel           is it sound?
  semel store check /backup/monday --json    the same, for a program";

/// Checks a store and names what is wrong with it.
pub(super) fn run(target: &Target) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let mut watch = Watch::new();
    let report = match check(&target.dir, &mut |seen| watch.see(seen)) {
        // A store too damaged to be opened has been checked all the same: this is what was found.
        Err(StoreError::Corrupt(what)) => damaged(what),
        other => other.map_err(Failure::store(&target.dir))?,
    };
    watch.finish();
    if target.json {
        let sound = report.is_sound();
        print_json(
            &json!({ "dir": target.dir, "sound": sound, "seconds": start.elapsed().as_secs_f64(), "report": report }),
        )?;
    } else {
        print(&render(&target.dir, &report, start.elapsed()))?;
    }
    Ok(Outcome::of(report.is_sound()))
}

fn damaged(what: String) -> CheckReport {
    CheckReport { findings: Findings { named: vec![what], total: 1 }, ..CheckReport::default() }
}

fn render(dir: &Path, report: &CheckReport, took: Duration) -> String {
    let CheckReport { jobs, unfinished, keys, index_garbage, findings } = report;
    let mut out = format!(
        "{}: {} jobs ({} unfinished), {} keys, checked in {}\n",
        dir.display(),
        text::count(*jobs),
        text::count(*unfinished),
        text::count(*keys),
        text::span(took)
    );
    if *index_garbage > 0 {
        let garbage = text::count(*index_garbage);
        writeln!(
            out,
            "{garbage} keys in the index belong to jobs that are gone; they are harmless and go in time"
        )
        .expect("a String takes everything");
    }
    out + &render_findings(findings)
}

fn render_findings(findings: &Findings) -> String {
    if findings.total == 0 {
        return "sound: no problems\n".into();
    }
    let noun = if findings.total == 1 { "problem" } else { "problems" };
    let mut out = format!("NOT SOUND: {} {noun}\n", text::count(findings.total));
    for problem in &findings.named {
        writeln!(out, "  - {}", text::printable(problem)).expect("a String takes everything");
    }
    let unnamed = findings.total.saturating_sub(findings.named.len() as u64);
    if unnamed > 0 {
        writeln!(out, "  and {} more", text::count(unnamed)).expect("a String takes everything");
    }
    out + "what to do: problems of the key index alone are mended by `semel store rebuild-index`;\n\
           for anything else restore from a backup (`semel restore`) and keep this directory for a report\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_named_counted_and_come_with_advice() {
        let findings = Findings { named: vec!["job \u{1b}[2J: bad checksum".into()], total: 3 };
        let text = render_findings(&findings);
        assert!(
            text.starts_with("NOT SOUND: 3 problems\n  - job \\u{1b}[2J: bad checksum\n  and 2 more\n"),
            "{text}"
        );
        assert!(text.contains("rebuild-index") && text.contains("restore"));
    }
}
