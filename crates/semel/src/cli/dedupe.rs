//! `semel dedupe`: what other keys, or another window, would have suppressed.

use clap::Args;
use semel_client::http::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, REMOTE_EXIT_CODES, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::moment;
use crate::remote::{ServerArgs, Span};
use crate::table::clip;
use crate::text::{count, printable, wrap};

const EXAMPLES: &str = "\
Goes through the jobs that are still stored and says which of them would have been answered with an
earlier one. Nothing is changed. A key is text with placeholders:
  {payload.order.id}    a member of the payload; {payload.lines.0.sku} an element of an array
  {payload/order/id}    the same as a JSON pointer, for names with dots
  {metadata.source}     an entry of the metadata
  {group}, {key}        the group, the present key
  {{, }}                braces

Examples:
  semel dedupe orders --key 'order-{payload.order.id}'       would this key do?
  semel dedupe orders --window 168h --over 7d                the present keys, held for a week
  semel dedupe orders --key '{group}-{payload.id}' --json    the same, for a program

At most 10,000 jobs are looked at, and payloads live as long as retention.completed says.";

/// Say what a key or a window would have suppressed, before it is enforced
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct DedupeArgs {
    /// The queue
    queue: String,
    /// What keys are to be made of [default: the keys as they are]
    #[arg(long, value_name = "EXPRESSION")]
    key: Option<String>,
    /// How long a key is to hold after the end of its job [default: the queue's window]
    #[arg(long, value_name = "SPAN")]
    window: Option<Span>,
    /// How far back to look
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    over: Span,
    #[command(flatten)]
    server: ServerArgs,
}

/// What would have been.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DryRun {
    from: String,
    to: String,
    published: u64,
    would_suppress: u64,
    would_collide: u64,
    keys: u64,
    without_key: u64,
    invalid_key: u64,
    payload_gone: u64,
    current: Current,
    groups: Vec<Group>,
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Current {
    with_key: u64,
    suppressed: u64,
}

/// What one key would have done.
#[derive(Debug, Deserialize)]
struct Group {
    key: String,
    jobs: u64,
    suppressed: u64,
    collisions: u64,
    samples: Vec<Sample>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    id: String,
    created_at: String,
    idempotency_key: Option<String>,
    instead: Option<String>,
    payload_matches: bool,
}

impl DedupeArgs {
    /// Asks the server.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let path = ["v1", "queues", &self.queue, "dedupe-dry-run"];
        let call = Call::post(&path).json(self.body().to_string());
        self.server.talk(async |remote| {
            let reply = remote.call(&call).await?;
            if self.server.json {
                print_reply(&reply)?;
            } else {
                let key = self.key.as_deref().unwrap_or("{key}");
                print(&render(&self.queue, key, &remote.read(&reply)?))?;
            }
            Ok(Outcome::Good)
        })
    }

    fn body(&self) -> Value {
        let mut body = json!({ "over": self.over.0.as_secs_f64() });
        if let Some(key) = &self.key {
            body["key"] = json!(key);
        }
        if let Some(window) = self.window {
            body["window"] = json!(window.0.as_secs_f64());
        }
        body
    }
}

fn render(queue: &str, key: &str, run: &DryRun) -> String {
    let [queue, key] = [queue, key].map(printable);
    let [from, to] = [&run.from, &run.to].map(|time| moment(time));
    let groups: String = run.groups.iter().map(group).collect();
    let notes = run.notes.iter().flat_map(|note| wrap(&printable(note), 98));
    let notes: String = notes.map(|line| format!("  {line}\n")).collect();
    let notes = if notes.is_empty() { notes } else { format!("\nnote:\n{notes}") };
    format!("{queue} with the key {key}, {from} to {to}\n\n{}{groups}{notes}", figures(run))
}

/// The figures, one below the other; what is nothing and would only be in the way is left out.
fn figures(run: &DryRun) -> String {
    let Current { with_key, suppressed } = run.current;
    let always = [
        (run.published, format!("jobs were published, {} of them with a key", count(with_key))),
        (
            run.would_suppress,
            format!("would have been answered with an earlier one (keys: {})", count(run.keys)),
        ),
        (run.would_collide, "of these have another payload: collisions".to_owned()),
    ];
    let seldom = [
        (run.without_key, "give no key: a placeholder has no value in them"),
        (run.invalid_key, "give a key that would be refused: too long, or with control characters"),
        (run.payload_gone, "are not known: their payload is no longer kept"),
        (suppressed, "further publishes were suppressed by the present keys"),
    ];
    let seldom = seldom.into_iter().filter(|(n, _)| *n > 0).map(|(n, words)| (n, words.to_owned()));
    always.into_iter().chain(seldom).map(|(n, words)| format!("  {:>7}  {words}\n", count(n))).collect()
}

fn group(group: &Group) -> String {
    let Group { jobs, suppressed, collisions, .. } = group;
    let collisions = if *collisions > 0 { format!(" (collisions: {collisions})") } else { String::new() };
    let head = format!("\n{}: {suppressed} of {jobs} jobs{collisions}\n", clip(&printable(&group.key), 60));
    head + &group.samples.iter().map(sample).collect::<String>()
}

fn sample(sample: &Sample) -> String {
    let became = match (&sample.instead, sample.payload_matches) {
        (None, _) => "would have been created",
        (Some(_), true) => "suppressed",
        (Some(_), false) => "suppressed, another payload",
    };
    let key = sample.idempotency_key.as_deref().map(|key| clip(&printable(key), 26)).unwrap_or_default();
    let line = format!("  {}  {}  {became:<27}  {key}", moment(&sample.created_at), printable(&sample.id));
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_have_been_is_told_in_figures_and_samples() {
        let sample = |id: &str, instead: Option<&str>, matches: bool| {
            json!({ "id": id, "createdAt": "2026-11-15T12:00:00.000Z", "idempotencyKey": format!("try-{id}"),
                "instead": instead, "payloadMatches": matches })
        };
        let run: DryRun = serde_json::from_value(json!({
            "from": "2026-11-14T12:00:00.000Z", "to": "2026-11-15T12:00:00.000Z", "published": 1234, "wouldSuppress": 2,
            "wouldCollide": 1, "keys": 1, "withoutKey": 0, "invalidKey": 0, "payloadGone": 7,
            "current": { "withKey": 1200, "suppressed": 0 },
            "groups": [{ "key": "order-1", "jobs": 3, "suppressed": 2, "collisions": 1,
                "samples": [sample("a", None, true), sample("b", Some("a"), true), sample("c", Some("a"), false)] }],
            "notes": ["7 jobs are left out"],
        }))
        .expect("it is as it should be");
        let expected = "orders with the key order-{payload.id}, 2026-11-14T12:00:00Z to 2026-11-15T12:00:00Z

    1,234  jobs were published, 1,200 of them with a key
        2  would have been answered with an earlier one (keys: 1)
        1  of these have another payload: collisions
        7  are not known: their payload is no longer kept

order-1: 2 of 3 jobs (collisions: 1)
  2026-11-15T12:00:00Z  a  would have been created      try-a
  2026-11-15T12:00:00Z  b  suppressed                   try-b
  2026-11-15T12:00:00Z  c  suppressed, another payload  try-c

note:
  7 jobs are left out\n";
        assert_eq!(render("orders", "order-{payload.id}", &run), expected);
    }
}
