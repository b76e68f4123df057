//! A job, as it looks.

use std::time::Duration;

use crate::paint::{Paint, of_status};
use crate::remote::wire::{Attempt, Job, moment};
use crate::table::{clip, painted, pairs};
use crate::text::{printable, span};

/// How much of a payload or a result is shown; `--json` has all of it.
const JSON_SHOWN: usize = 300;

/// How wide an error may be in a table that fits a terminal.
const ERROR_WIDE: usize = 48;

/// Everything.
pub(in crate::cli) fn whole(job: &Job) -> String {
    let paint = Paint::stdout();
    let status = paint.text(of_status(&job.status), &printable(&job.status));
    let head = format!("{} in {}: {status}\n", printable(&job.id), printable(&job.queue));
    format!("{head}{}{}", facts(job), deliveries(&job.history, paint))
}

fn facts(job: &Job) -> String {
    let json = |text: &str| clip(&printable(text), JSON_SHOWN);
    let many = |n: u32, words: &str| (n > 0).then(|| format!("{n} {words}"));
    let metadata: Vec<_> = job.metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs([
        ("key", Some(key(job))),
        ("published", Some(moment(&job.created_at))),
        ("duplicates", many(job.duplicates, "more publishes were answered with this job")),
        ("next delivery", (job.status == "pending").then(|| moment(&job.scheduled_for))),
        ("ended", job.completed_at.as_deref().map(moment)),
        ("attempts", Some(format!("{} of {}", job.attempts, job.max_attempts))),
        ("deferred", many(job.defer_count, "times, which burned no attempt")),
        ("replayed", many(job.replays, "times")),
        ("last error", job.last_error.as_deref().map(printable)),
        ("receipt", job.effect.as_ref().map(|receipt| format!("the effect was {}", receipt.shown()))),
        ("result", job.result.as_ref().map(|result| json(result.get()))),
        ("payload", Some(job.payload.as_ref().map_or_else(|| "no longer kept".into(), |p| json(p.get())))),
        ("priority", (job.priority != 0).then(|| job.priority.to_string())),
        ("group", job.group.as_deref().map(printable)),
        ("metadata", (!metadata.is_empty()).then(|| printable(&metadata.join(", ")))),
    ])
}

fn key(job: &Job) -> String {
    let Some(key) = &job.idempotency_key else { return "none".into() };
    let released = job.key_released.as_ref().map(|why| format!(" (released: {why})")).unwrap_or_default();
    printable(&format!("{key}{released}"))
}

fn deliveries(history: &[Attempt], paint: Paint) -> String {
    if history.is_empty() {
        return String::new();
    }
    let head = ["attempt", "settled", "outcome", "took", "more"];
    let rows = history.iter().map(delivery);
    let tone =
        |column: usize, cell: &str| if column == 2 { of_status(cell) } else { crate::paint::Tone::Plain };
    format!("\n{}", painted(head, rows, paint, tone))
}

fn delivery(attempt: &Attempt) -> [String; 5] {
    let answer = attempt.webhook_status_code.map(|code| format!("answered {code}"));
    let receipt = attempt.effect.as_ref().map(|receipt| format!("effect {}", receipt.shown()));
    let error = attempt.error.as_deref().map(|error| clip(&printable(error), ERROR_WIDE));
    let more: Vec<_> = [answer, receipt, error].into_iter().flatten().collect();
    [
        attempt.attempt.to_string(),
        moment(&attempt.timestamp),
        printable(&attempt.status),
        attempt.duration_ms.map(|ms| span(Duration::from_millis(ms))).unwrap_or_default(),
        more.join(", "),
    ]
}
