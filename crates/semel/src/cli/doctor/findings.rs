//! What a server noticed, as a person reads it.

use semel_client::http::Call;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::{Outcome, print, print_reply};
use crate::failure::Failure;
use crate::paint::{Paint, Tone};
use crate::remote::ServerArgs;
use crate::remote::wire::moment;
use crate::table::clip;
use crate::text::{printable, wrap};

/// How wide a line is at most.
const WIDTH: usize = 100;

/// What a server advises.
#[derive(Debug, Deserialize)]
struct Advice {
    node: String,
    findings: Vec<Finding>,
}

/// One thing that should be looked at.
#[derive(Debug, Deserialize)]
struct Finding {
    code: String,
    severity: String,
    queue: Option<String>,
    summary: String,
    meaning: String,
    remedy: String,
    evidence: Map<String, Value>,
    since: String,
}

/// Asks the server.
pub(super) fn run(server: &ServerArgs, queue: Option<&str>) -> Result<Outcome, Failure> {
    let mut call = Call::get(&["v1", "advice"]);
    if let Some(queue) = queue {
        call = call.query("queue", queue);
    }
    server.talk(async |remote| {
        let reply = remote.call(&call).await?;
        let advice: Advice = remote.read(&reply)?;
        if server.json {
            print_reply(&reply)?;
        } else {
            print(&render(&advice, remote.server(), queue, Paint::stdout()))?;
        }
        Ok(Outcome::of(advice.findings.iter().all(|finding| finding.severity == "info")))
    })
}

fn render(advice: &Advice, server: &str, queue: Option<&str>, paint: Paint) -> String {
    let node = printable(&advice.node);
    let about = queue.map(|queue| format!(", queue {}", printable(queue))).unwrap_or_default();
    let head = format!("{server} (node {node}){about}");
    if advice.findings.is_empty() {
        return format!("{head}: nothing to complain of\n");
    }
    let findings: Vec<_> = advice.findings.iter().map(|finding| finding.shown(paint)).collect();
    format!("{head}: {}\n\n{}", tally(&advice.findings), findings.join("\n"))
}

/// How many there are of each severity, the worst first.
fn tally(findings: &[Finding]) -> String {
    let of = |severity: &str| findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = ["critical", "warning", "info"].map(|severity| (of(severity), severity));
    let told: Vec<_> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, severity)| format!("{n} {severity}")).collect();
    told.join(", ")
}

impl Finding {
    fn shown(&self, paint: Paint) -> String {
        let tone = match self.severity.as_str() {
            "critical" => Tone::Bad,
            "warning" => Tone::Odd,
            _ => Tone::Faint,
        };
        let place = self.queue.as_deref().unwrap_or("the store");
        let title = format!("{}  {}", printable(place), printable(&self.code));
        let since = paint.text(Tone::Faint, &format!("since {}", moment(&self.since)));
        let mut text = format!("{}  {title}  {since}\n", paint.text(tone, &printable(&self.severity)));
        text += &paragraph("  ", &sentence(&self.summary));
        text += &paragraph("  ", &self.meaning);
        text += &paragraph("  -> ", &self.remedy);
        text + &self.samples(paint)
    }

    fn samples(&self, paint: Paint) -> String {
        let samples = self.evidence.get("samples").and_then(Value::as_array);
        let lines = samples.into_iter().flatten().filter_map(Value::as_object).map(sample);
        lines.map(|line| format!("     {}\n", paint.text(Tone::Faint, &clip(&line, WIDTH - 5)))).collect()
    }
}

/// A summary as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Text below a mark; further lines are below its first word.
fn paragraph(mark: &str, text: &str) -> String {
    let lines = wrap(&printable(text), WIDTH - mark.len());
    let put = |(at, line): (usize, &String)| match at {
        0 => format!("{mark}{line}\n"),
        _ => format!("{:indent$}{line}\n", "", indent = mark.len()),
    };
    lines.iter().enumerate().map(put).collect()
}

/// A sample on a line: names and what they stand for.
fn sample(facts: &Map<String, Value>) -> String {
    let told: Vec<_> = facts.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect();
    printable(&told.join(", "))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn advice(findings: &Value) -> Advice {
        serde_json::from_value(json!({ "node": "a", "findings": findings })).expect("it is as it should be")
    }

    #[test]
    fn a_finding_fits_a_terminal_and_obeys_nobody() {
        let found = advice(&json!([{
            "code": "keys_random", "severity": "warning", "queue": "orders",
            "summary": "the same payload was published under 6 different random keys within 28s",
            "meaning": "It looks as if the publisher makes a new key for each try. Then no retry is recognised, and \
                every try runs.",
            "remedy": "Make the key before the first try. Set keyPattern to what such a key looks like.",
            "evidence": { "payloads": 1, "samples": [{ "key": "a\u{1b}[2J", "keys": 6 }] },
            "since": "2026-11-15T12:00:35.000Z",
        }]));
        let expected = "http://h:1 (node a): 1 warning

warning  orders  keys_random  since 2026-11-15T12:00:35Z
  The same payload was published under 6 different random keys within 28s.
  It looks as if the publisher makes a new key for each try. Then no retry is recognised, and every
  try runs.
  -> Make the key before the first try. Set keyPattern to what such a key looks like.
     key a\\u{1b}[2J, keys 6\n";
        let text = render(&found, "http://h:1", None, Paint::NONE);
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn nothing_to_say_is_said() {
        let text = render(&advice(&json!([])), "http://h:1", Some("orders"), Paint::NONE);
        assert_eq!(text, "http://h:1 (node a), queue orders: nothing to complain of\n");
    }
}
