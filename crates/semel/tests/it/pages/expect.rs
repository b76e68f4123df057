//! Whether a command printed what its page says.
//!
//! - `[..]` stands for anything within a line, a line `...` for any lines.
//! - A time in the page, with or without its date, stands for any time.
//! - An id or secret in the page (`job_…`, `lse_…`, `sml_…`) stands for one of its kind: for any when it comes up first,
//!   and from then on for that one, in output and in commands.
//! - JSON may be written on more lines than it was printed on. A line `...` in it stands for further members or items.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What stands for what: ids in the page, and those of this run.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(HashMap<String, String>);

/// Ids and secrets of Semel.
const NAMES: &str = r"\b(?:job|lse|dlv|rpl|sml)_[0-9A-Za-z]+|\bwhsec_[0-9A-Za-z+/=]+|\bkey_[0-9a-f]{16}\b";
const TIMES: &str = r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z";
const CLOCKS: &str = r"\b\d\d:\d\d:\d\d\b";

static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(NAMES).expect("a pattern"));
static PART: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"\[\.\.\]|{TIMES}|{CLOCKS}|{NAMES}")).expect("a pattern"));

impl Names {
    /// The command with the ids of this run.
    pub(super) fn fill(&self, command: &str) -> String {
        NAME.replace_all(command, |found: &regex::Captures<'_>| self.known(&found[0])).into_owned()
    }

    /// A text of this run with the ids of the page.
    pub(super) fn unfill(&self, printed: &str) -> String {
        self.0.iter().fold(printed.to_owned(), |text, (name, meant)| text.replace(meant, name))
    }

    fn known(&self, name: &str) -> String {
        self.0.get(name).map_or(name, String::as_str).to_owned()
    }

    /// Whether the lines are those expected; with `open` more may follow. Learns names if so.
    pub(super) fn match_lines(&mut self, expected: &[String], printed: &[&str], open: bool) -> bool {
        let Some(names) = lines(self, expected, printed, open) else { return false };
        *self = names;
        true
    }

    /// The same for a text that is JSON as a whole.
    pub(super) fn match_json(&mut self, expected: &[String], printed: &str) -> bool {
        let Some((expected, open)) = lenient(expected) else { return false };
        let Ok(printed) = serde_json::from_str::<Value>(printed) else { return false };
        let mut names = self.clone();
        let good = value(&mut names, &expected, &printed, open);
        if good {
            *self = names;
        }
        good
    }
}

fn lines(names: &Names, expected: &[String], printed: &[&str], open: bool) -> Option<Names> {
    let Some((first, rest)) = expected.split_first() else {
        return (open || printed.is_empty()).then(|| names.clone());
    };
    if first.trim() == "..." {
        return (0..=printed.len()).find_map(|skip| lines(names, rest, &printed[skip..], open));
    }
    let (line, others) = printed.split_first()?;
    let mut names = names.clone();
    text(&mut names, first, line.trim_end()).then(|| lines(&names, rest, others, open))?
}

/// Whether one text is as expected.
fn text(names: &mut Names, expected: &str, printed: &str) -> bool {
    let (mut pattern, mut end, mut new) = (String::from("^"), 0, Vec::new());
    for part in PART.find_iter(expected) {
        pattern.push_str(&regex::escape(&expected[end..part.start()]));
        end = part.end();
        match (part.as_str(), part.as_str().split_once('_')) {
            ("[..]", _) => pattern.push_str(".*?"),
            (name, Some(_)) if names.0.contains_key(name) => pattern.push_str(&regex::escape(&names.0[name])),
            (name, Some((kind, _))) => {
                new.push(name);
                pattern.push_str(&format!(r"({kind}_[0-9A-Za-z+/=]+)"));
            }
            (time, None) => pattern.push_str(if time.len() == 8 { CLOCKS } else { TIMES }),
        }
    }
    pattern.push_str(&regex::escape(&expected[end..]));
    let pattern = Regex::new(&(pattern + "$")).expect("a pattern");
    pattern.captures(printed).is_some_and(|found| learn(names, &new, &found))
}

fn learn(names: &mut Names, new: &[&str], found: &regex::Captures<'_>) -> bool {
    new.iter().enumerate().all(|(n, name)| {
        let meant = names.0.entry((*name).to_owned()).or_insert_with(|| found[n + 1].to_owned());
        *meant == found[n + 1]
    })
}

/// What stands for any value in [`lenient`] JSON.
const ANY: &str = "\u{0}";

/// JSON with `[..]` for values and `...` for what is left out; and whether something is.
fn lenient(expected: &[String]) -> Option<(Value, bool)> {
    let kept: Vec<_> = expected.iter().filter(|line| line.trim() != "...").map(String::as_str).collect();
    let any = Regex::new(r"([:,\[]\s*)\[\.\.\]").expect("a pattern");
    let comma = Regex::new(r",(\s*[}\]])").expect("a pattern");
    let text = any.replace_all(&kept.join("\n"), r#"${1}"\u0000""#).into_owned();
    let text = comma.replace_all(&text, "$1");
    let value: Value = serde_json::from_str(&text).ok()?;
    (value.is_object() || value.is_array()).then_some((value, kept.len() < expected.len()))
}

fn value(names: &mut Names, expected: &Value, printed: &Value, open: bool) -> bool {
    match (expected, printed) {
        (Value::String(any), _) if any == ANY => true,
        (Value::String(expected), Value::String(printed)) => text(names, expected, printed),
        (Value::Array(expected), Value::Array(printed)) => {
            (open || expected.len() == printed.len())
                && expected.len() <= printed.len()
                && expected.iter().zip(printed).all(|(e, p)| value(names, e, p, open))
        }
        (Value::Object(expected), Value::Object(printed)) => {
            (open || expected.len() == printed.len())
                && expected.iter().all(|(k, e)| printed.get(k).is_some_and(|p| value(names, e, p, open)))
        }
        _ => expected == printed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn wildcards_stand_for_what_differs_and_for_nothing_else() {
        let mut names = Names::default();
        assert!(names.match_lines(
            &page(&["in [..] ms", "...", "end"]),
            &["in 12 ms", "a", "b", "end"],
            false
        ));
        assert!(!names.match_lines(&page(&["in [..] ms"]), &["in 12 s"], false));
        assert!(!names.match_lines(&page(&["a"]), &["a", "b"], false), "more was printed");
        assert!(names.match_lines(&page(&["a"]), &["a", "b"], true));
        assert!(names.match_lines(
            &page(&["at 2026-11-16T09:08:21.328Z"]),
            &["at 2027-01-01T00:00:00Z"],
            false
        ));
    }

    #[test]
    fn an_id_stands_for_one_id_of_the_run() {
        let mut names = Names::default();
        assert!(names.match_lines(&page(&["job_1 made"]), &["job_06w8 made"], false));
        assert_eq!(names.fill("semel job job_1"), "semel job job_06w8");
        assert!(names.match_lines(&page(&["job_1 again"]), &["job_06w8 again"], false));
        assert!(!names.match_lines(&page(&["job_1 again"]), &["job_zzzz again"], false), "another job");
        assert!(!names.match_lines(&page(&["job_2"]), &["lse_1"], false), "another kind");
    }

    #[test]
    fn json_is_compared_by_its_meaning() {
        let mut names = Names::default();
        let expected = page(&["{", r#"  "id": "job_1","#, r#"  "n": [..],"#, "  ...", "}"]);
        assert!(names.match_json(&expected, r#"{"n":3,"id":"job_9","more":true}"#));
        assert!(!names.match_json(&expected, r#"{"n":3,"id":"job_8"}"#), "another job");
        assert!(!names.match_json(&page(&[r#"{"n": 1}"#]), r#"{"n":1,"more":true}"#));
        assert!(!names.match_json(&page(&[r#"{"n": 1}"#]), r#"{"n":2}"#));
        assert!(names.match_json(&page(&[r#"{"jobs": []}"#]), r#"{"jobs":[]}"#));
    }
}
