//! How numbers read on screen. One place, so that a figure looks the same in a table, a plot and a sentence.

use std::time::Duration;

/// A count with thousands separators: `12,345,678`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A fraction as a count, for rates: nobody reads the third digit of 231,482.7 publishes a second.
pub(crate) fn rate(per_second: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive and far below 2^53"
    )]
    let whole = per_second.max(0.0).round() as u64;
    count(whole)
}

/// A size in the largest binary unit that leaves a number of at least one: `512 B`, `1.5 KiB`, `6.2 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A span the way people say it: `850 ms`, `12.3 s`, `4 min 05 s`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match span.as_secs() {
        0 => format!("{:.0} ms", seconds * 1000.0),
        1..60 => format!("{seconds:.1} s"),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

/// Text of strangers (keys, queue names, errors) made safe for a terminal: control characters are shown, not obeyed.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// Breaks text at spaces so that no line is longer than `width`; a word that is longer stays whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(
            [count(0), count(999), count(1000), count(12_345_678)],
            ["0", "999", "1,000", "12,345,678"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(6 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "6.0 GiB"]
        );
        assert_eq!(rate(231_482.7), "231,483");
        assert_eq!(span(Duration::from_millis(850)), "850 ms");
        assert_eq!(span(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(span(Duration::from_secs(245)), "4 min 05 s");
    }

    #[test]
    fn an_escape_sequence_is_shown_and_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }

    #[test]
    fn long_texts_are_broken_at_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities", 5), ["incomprehensibilities"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
