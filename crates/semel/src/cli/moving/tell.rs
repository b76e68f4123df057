//! What a move has to say, for people and for programs.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use semel_store_postgres::import::{Census, Differences, Plan, QueueCensus, Report, Target};
use serde_json::{Value, json};

use crate::text;

/// What a move did, or a comparison found.
pub(super) struct Done<'a> {
    pub(super) from: &'a Path,
    pub(super) to: &'a str,
    pub(super) verify: bool,
    pub(super) took: Duration,
    /// Nothing if the store had been moved before.
    pub(super) report: Option<Report>,
}

/// What a move would do.
pub(super) struct Planned<'a> {
    pub(super) from: &'a Path,
    pub(super) to: &'a str,
    pub(super) plan: Plan,
}

impl Done<'_> {
    /// Whether both sides are the same, as far as they were compared.
    pub(super) fn is_good(&self) -> bool {
        self.report.as_ref().is_none_or(|report| report.differences.is_empty())
    }

    pub(super) fn json(&self) -> Value {
        let Self { from, to, report, .. } = self;
        let seconds = self.took.as_secs_f64();
        let same = report.as_ref().map(|report| report.differences.is_empty());
        json!({ "from": from, "to": to, "seconds": seconds, "same": same, "report": report })
    }

    pub(super) fn text(&self) -> String {
        let (from, to, took) = (self.from.display(), self.to, text::span(self.took));
        let Some(report) = &self.report else {
            return format!(
                "{from} was moved to {to} before: nothing was done\n--verify compares both sides\n"
            );
        };
        let jobs = text::count(if self.verify { report.source.jobs } else { report.moved });
        let done = match (self.verify, report.resumed) {
            (true, _) => format!("{jobs} jobs compared"),
            (false, true) => format!("the other {jobs} jobs moved"),
            (false, false) => format!("{jobs} jobs moved"),
        };
        let next = if self.verify { "" } else { NEXT };
        let verdict = if self.is_good() { same(&report.source, next) } else { not_same(&report.differences) };
        format!("{from} to {to}: {done} in {took}\n{}\n{verdict}", queues(&report.source))
    }
}

const NEXT: &str = "what to do: start the servers on the database (`semel serve --store ...`); keep the directory until you\n\
                    are sure, and let no server start on it again\n";

impl Planned<'_> {
    pub(super) fn json(&self) -> Value {
        let Self { from, to, plan } = self;
        let migrations: Vec<_> = plan.migrations.iter().map(|migration| migration.name).collect();
        json!({ "from": from, "to": to, "migrations": migrations, "plan": plan })
    }

    pub(super) fn text(&self) -> String {
        let Self { from, to, plan } = self;
        let stands = match plan.target {
            Target::Empty if plan.migrations.is_empty() => {
                "has an empty store in it, and would get everything"
            }
            Target::Empty => "has no store in it yet; its tables would be made, and it would get everything",
            Target::Begun => "has a part of it, from a move that would go on",
            Target::Moved => "has it all, from a move that is finished; nothing would be done",
        };
        format!(
            "{} can be read from end to end: {}\n{}\n{to} {stands}\n",
            from.display(),
            everything(&plan.source),
            queues(&plan.source)
        )
    }
}

fn same(source: &Census, next: &str) -> String {
    format!("the same on both sides: {}\n{next}", everything(source))
}

fn not_same(differences: &Differences) -> String {
    let noun = if differences.total == 1 { "difference" } else { "differences" };
    let mut out = format!("NOT THE SAME: {} {noun}\n", text::count(differences.total));
    for what in &differences.named {
        line(&mut out, &format!("  - {}", text::printable(what)));
    }
    let unnamed = differences.total.saturating_sub(differences.named.len() as u64);
    if unnamed > 0 {
        line(&mut out, &format!("  and {} more", text::count(unnamed)));
    }
    out + "what to do: if servers have worked on the database since the move, differences are what they did. If not, the\n\
           directory is as it was: take the schema away (DROP SCHEMA semel CASCADE), move again, and report this\n"
}

/// All counts in one line.
fn everything(census: &Census) -> String {
    let number =
        |n: u64, one: &str, many: &str| format!("{} {}", text::count(n), if n == 1 { one } else { many });
    let queues = u64::try_from(census.shown().count()).unwrap_or(u64::MAX);
    [
        number(census.jobs, "job", "jobs"),
        number(census.keys, "of them with a key", "of them with keys"),
        number(queues, "queue", "queues"),
        number(census.schedules, "schedule", "schedules"),
        number(census.api_keys, "API key", "API keys"),
        number(census.replays, "replay task", "replay tasks"),
    ]
    .join(", ")
}

fn queues(census: &Census) -> String {
    let name = |queue: &QueueCensus| {
        let deleted = if queue.deleted { " (deleted)" } else { "" };
        format!("{}{deleted}", text::printable(queue.queue.as_str()))
    };
    let rows: Vec<_> = census.shown().map(|queue| (name(queue), queue)).collect();
    if rows.is_empty() {
        return "  no queues\n".into();
    }
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max("queue".len());
    let mut out = String::new();
    let heads = ["unfinished", "completed", "dead", "cancelled"].map(str::to_owned);
    row(&mut out, widest, "queue", &heads);
    for (name, QueueCensus { unfinished, completed, dead, cancelled, .. }) in rows {
        row(&mut out, widest, &name, &[*unfinished, *completed, *dead, *cancelled].map(text::count));
    }
    out
}

fn row(out: &mut String, widest: usize, name: &str, cells: &[String; 4]) {
    let [first, second, third, fourth] = cells;
    line(out, &format!("  {name:widest$}  {first:>13} {second:>13} {third:>13} {fourth:>13}"));
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a String takes everything");
}
