//! What happens, as it looks on a terminal: line below line, in colour where there is one.

use std::io::IsTerminal;
use std::time::Duration;

use jiff::tz::TimeZone;
use semel_server::journal::{Gloss, Line, Tone};

use crate::paint::{self, Paint};
use crate::table::clip;
use crate::text::printable;

/// How wide a path is. With it a deduplicated publish fits 100 columns.
const PLACE: usize = 36;

/// The longest gloss that is shown: a problem's detail may be long, and a line that wraps is hard to find again.
const WORDS: usize = 110;

/// Where lines are shown.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    paint: Paint,
    zone: TimeZone,
}

impl Screen {
    /// A screen on stdout or stderr.
    pub(crate) fn on(stream: &impl IsTerminal) -> Self {
        Self { paint: Paint::on(stream), zone: TimeZone::system() }
    }

    /// A line of a journal, without its end.
    pub(crate) fn line(&self, line: &Line) -> String {
        let Line { what, place, status, took, gloss, .. } = line;
        let (time, place) = (self.time(time_of(line)), fitted(&printable(place)));
        let status = status.map_or_else(|| "  -".into(), |status| status.to_string());
        let took = took.map(span).unwrap_or_default();
        let told = |gloss: &Gloss| self.toned(gloss.tone, &clip(&printable(&gloss.words), WORDS));
        let words = gloss.as_ref().map(told).unwrap_or_default();
        let time = self.paint.text(paint::Tone::Faint, &time);
        format!("{time}  {what:<6} {place} {status} {took:>7}  {words}").trim_end().to_owned()
    }

    /// Words of this kind.
    pub(crate) fn toned(&self, tone: Tone, words: &str) -> String {
        let tone = match tone {
            Tone::Made => paint::Tone::Good,
            Tone::Duplicate => paint::Tone::Busy,
            Tone::Collision => paint::Tone::Odd,
            Tone::Work => paint::Tone::Plain,
            Tone::Trouble => paint::Tone::Bad,
        };
        self.paint.text(tone, words)
    }

    /// A time of day, by the clock on the wall here.
    pub(crate) fn time(&self, at: jiff::Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string()
    }
}

fn time_of(line: &Line) -> jiff::Timestamp {
    let millis = i64::try_from(line.at.millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
}

/// Padded, or with its middle left out: the end of a path says what was done.
fn fitted(place: &str) -> String {
    let letters: Vec<char> = place.chars().collect();
    if letters.len() <= PLACE {
        return format!("{place:PLACE$}");
    }
    let end = PLACE / 2;
    let (head, tail) = (&letters[..PLACE - end - 1], &letters[letters.len() - end..]);
    head.iter().chain(['…'].iter()).chain(tail).collect()
}

fn span(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{:.1} ms", took.as_secs_f64() * 1000.0),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use semel_core::time::Timestamp;

    use super::*;

    fn line(place: &str, gloss: Option<Gloss>) -> Line {
        Line {
            at: Timestamp::from_millis(1_794_744_000_000),
            what: "POST".into(),
            place: place.into(),
            status: Some(200),
            took: Some(Duration::from_micros(1_240)),
            gloss,
        }
    }

    fn plain() -> Screen {
        Screen { paint: Paint::NONE, zone: TimeZone::UTC }
    }

    #[test]
    fn a_duplicate_fits_a_terminal() {
        let gloss = Gloss::new(Tone::Duplicate, "deduplicated -> job_0123456789abc");
        let shown = plain().line(&line("/v1/queues/orders/jobs", Some(gloss)));
        let expected = "12:00:00  POST   /v1/queues/orders/jobs               200  1.2 ms  \
                        deduplicated -> job_0123456789abc";
        assert_eq!((shown.as_str(), shown.len()), (expected, 100));
    }

    #[test]
    fn a_long_path_keeps_its_beginning_and_its_end() {
        let shown = plain().line(&line("/v1/queues/a-queue-with-quite-a-name/jobs/batch", None));
        assert_eq!(shown, "12:00:00  POST   /v1/queues/a-queu…-a-name/jobs/batch 200  1.2 ms");
    }

    #[test]
    fn strangers_send_no_colours() {
        let gloss = Gloss::new(Tone::Trouble, "not_found: \u{1b}[2J");
        let one = line("/x", Some(gloss));
        let shown = plain().line(&one);
        assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"), "{shown}");
    }
}
