//! Spans as people write them: `90`, `30s`, `5m`, `72h`, `7d`.

use std::str::FromStr;
use std::time::Duration;

/// A span on the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span(pub(crate) Duration);

/// The longest that anything here takes, in seconds: a hundred years. The server has its own, smaller limits.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it as seconds or with a unit: 90, 30s, 5m, 72h, 7d".to_owned();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let seconds = digits.parse::<f64>().map_err(|_| wrong())? * unit;
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(wrong());
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90", 90.0),
            ("1.5", 1.5),
            ("250ms", 0.25),
            ("5m", 300.0),
            ("72h", 259_200.0),
            ("7d", 604_800.0),
        ] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs_f64(seconds))), "{text}");
        }
        for text in ["", "s", "soon", "-1", "1e99", "nan", "inf", "5 m", "3w"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
