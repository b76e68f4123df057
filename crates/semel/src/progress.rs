//! Progress of long work: a bar on a terminal, a line every few seconds elsewhere. Always on stderr, so that stdout
//! carries results only.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text;

/// How often a line is printed where there is no terminal: often enough to see life in a CI log, rare enough to read.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far some work has come.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A bar that redraws itself.
    Bar(ProgressBar),
    /// Lines for logs.
    Lines(Lines),
}

/// What the lines need to know of the work under way.
#[derive(Debug)]
pub(crate) struct Lines {
    title: String,
    total: u64,
    printed: Instant,
}

impl Progress {
    /// A bar if stderr is a terminal, else lines.
    pub(crate) fn new() -> Self {
        if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
            bar.set_style(style(0));
            bar.enable_steady_tick(Duration::from_millis(200));
            return Self::Bar(bar);
        }
        Self::Lines(Lines { title: String::new(), total: 0, printed: Instant::now() })
    }

    /// Starts the next piece of work; a total of zero means that nobody knows how long it is.
    pub(crate) fn start(&mut self, title: impl Into<Cow<'static, str>>, total: u64) {
        let title = title.into();
        match self {
            Self::Bar(bar) => {
                bar.reset();
                bar.set_message(title);
                bar.set_length(total);
                bar.set_style(style(total));
            }
            Self::Lines(lines) => {
                say(&format!(
                    "{title}{}",
                    if total > 0 { format!(": {}", text::count(total)) } else { String::new() }
                ));
                *lines = Lines { title: title.into_owned(), total, printed: Instant::now() };
            }
        }
    }

    /// Says how much of it is done.
    pub(crate) fn set(&mut self, done: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(done),
            Self::Lines(lines) if lines.printed.elapsed() >= LINE_EVERY => {
                lines.printed = Instant::now();
                say(&lines.text(done));
            }
            Self::Lines(_) => {}
        }
    }

    /// Prints a line that stays, above the bar if there is one.
    pub(crate) fn note(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| say(line)),
            Self::Lines(_) => say(line),
        }
    }

    /// Takes the bar away: what follows is the result.
    pub(crate) fn finish(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    fn text(&self, done: u64) -> String {
        let Self { title, total, .. } = self;
        match (done * 100).checked_div(*total) {
            Some(percent) => {
                format!("{title}: {} of {} ({percent} %)", text::count(done), text::count(*total))
            }
            None => format!("{title}: {}", text::count(done)),
        }
    }
}

/// A notice is not worth failing for: when stderr is gone there is nobody to read it.
fn say(line: &str) {
    writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
}

fn style(total: u64) -> ProgressStyle {
    let template = if total > 0 {
        "{msg:<38} {wide_bar:.cyan/dim} {human_pos:>11}/{human_len} {elapsed:>4}"
    } else {
        "{msg:<38} {spinner} {human_pos:>11} {elapsed:>4}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_the_work_is() {
        let mut lines = Lines { title: "reading rows".into(), total: 4000, printed: Instant::now() };
        assert_eq!(lines.text(1000), "reading rows: 1,000 of 4,000 (25 %)");
        lines.total = 0;
        assert_eq!(lines.text(1000), "reading rows: 1,000");
    }
}
