//! The report as a table on a terminal, at most 100 columns wide.

use std::fmt::Write;

use super::report::{Figure, Report};
use crate::text;

/// The whole report for people.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    header(&mut out, report);
    measures(&mut out, report);
    figures(&mut out, &report.figures);
    footer(&mut out, report);
    out
}

/// Adds a line. Writing to a `String` cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
    out.push('\n');
}

fn header(out: &mut String, report: &Report) {
    let Report { bench, semel, commit, .. } = report;
    line(out, format_args!("\nsemel bench {bench}  (semel {semel}, commit {commit})"));
    line(out, format_args!("  {}", report.machine.summary()));
    report.about.iter().for_each(|about| line(out, format_args!("  {about}")));
    out.push('\n');
}

fn measures(out: &mut String, report: &Report) {
    line(out, format_args!("  {:<54} {:>9} {:>8} {:>9}  verdict", "measure", "must", "aim", "measured"));
    line(out, format_args!("  {}", "─".repeat(97)));
    for measure in &report.measures {
        let target = measure.target;
        let show = |value| target.unit.text(value);
        let measured = measure.measured.map_or_else(|| "-".into(), show);
        line(
            out,
            format_args!(
                "  {:<54} {:>9} {:>8} {:>9}  {}",
                target.title,
                show(target.must),
                show(target.aim),
                measured,
                measure.verdict.text()
            ),
        );
    }
}

fn figures(out: &mut String, figures: &[Figure]) {
    line(out, format_args!("\n  {:<52} {:>12}   each run", "behind it", "median"));
    line(out, format_args!("  {}", "─".repeat(97)));
    for figure in figures {
        let runs: Vec<_> = figure.runs.iter().map(|&value| number(value)).collect();
        let median = figure.median.map_or_else(|| "-".into(), number);
        let name = format!("{} ({})", figure.name, figure.unit);
        line(out, format_args!("  {name:<52} {median:>12}   {}", runs.join("  ")));
    }
}

/// A figure with as many digits as mean something.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { text::rate(value) }
}

fn footer(out: &mut String, report: &Report) {
    out.push('\n');
    for note in &report.notes {
        line(out, format_args!("  note: {note}"));
    }
    let below: Vec<_> = report.below_must().map(|m| m.target.id).collect();
    let verdict = if below.is_empty() {
        "nothing measured is below must".into()
    } else {
        format!("below must: {}", below.join(", "))
    };
    line(
        out,
        format_args!(
            "  {verdict}; took {}",
            text::span(std::time::Duration::from_secs_f64(report.took_seconds))
        ),
    );
    line(out, format_args!("  again: {}", report.command));
}
