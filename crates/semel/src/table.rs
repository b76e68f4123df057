//! Tables and lists on a terminal: cells below each other, nothing wider than it must be.

use crate::paint::{Paint, Tone};

/// Lines whose cells are below each other, under a head.
pub(crate) fn columns<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    painted(head, rows, Paint::NONE, |_, _| Tone::Plain)
}

/// The same with colour; `tone` knows it from the number of the column and the cell.
pub(crate) fn painted<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    paint: Paint,
    tone: impl Fn(usize, &str) -> Tone,
) -> String {
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |(at, row): (usize, &[String; N])| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let tone = if at == 0 { Tone::Faint } else { tone(column, cell) };
            // What pads is outside of the colour, so that it does not count.
            format!("{}{:pad$}", paint.text(tone, cell), "", pad = width - cell.chars().count())
        });
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().enumerate().map(line).collect()
}

/// Names and what they stand for, below each other; what has no value is left out.
pub(crate) fn pairs<'a>(all: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let all: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let width = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    all.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}

/// A text that is no wider than this; what is left out is shown to be missing.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_below_each_other() {
        let rows = [["1".to_owned(), "größer".to_owned()], ["22".to_owned(), String::new()]];
        assert_eq!(columns(["id", "text"], rows), "  id  text\n  1   größer\n  22\n");
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        let shown = pairs([("key", Some("k".to_owned())), ("group", None), ("priority", Some("3".into()))]);
        assert_eq!(shown, "  key       k\n  priority  3\n");
    }

    #[test]
    fn a_long_text_is_cut_visibly() {
        assert_eq!([clip("abcd", 4), clip("abcde", 4)], ["abcd", "abc…"]);
    }
}
