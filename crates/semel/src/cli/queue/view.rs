//! Queues, as they look.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::settings;
use crate::failure::Failure;
use crate::paint::{Paint, Tone, of_status};
use crate::remote::Remote;
use crate::remote::wire::{Counts, moment};
use crate::table::{clip, painted, pairs};
use crate::text::{count, printable, wrap};

/// What is shown of a queue besides its settings.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    name: String,
    delivery: Delivery,
    paused: bool,
    held_until: Option<String>,
    breaker_state: Option<String>,
    counts: Counts,
    handler_time: Option<HandlerTime>,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Delivery {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
struct HandlerTime {
    count: u64,
    p50: f64,
    p99: f64,
}

impl Queue {
    fn read(remote: &Remote, value: &Value) -> Result<Self, Failure> {
        Self::deserialize(value).map_err(|error| remote.odd(&error))
    }

    /// Whether it delivers, and why not.
    fn gate(&self) -> String {
        match (self.paused, &self.held_until, self.breaker_state.as_deref()) {
            (true, ..) => "paused".into(),
            (_, Some(until), _) => format!("held until {}", moment(until)),
            (_, _, Some("open")) => "breaker open".into(),
            (_, _, Some("half_open")) => "breaker half open".into(),
            _ => "open".into(),
        }
    }

    fn route(&self) -> String {
        let url = self.delivery.url.as_ref().map(|url| format!(" {url}")).unwrap_or_default();
        printable(&format!("{}{url}", self.delivery.kind))
    }
}

/// How wide a name or an address may be for a line that fits a terminal.
const NAME_WIDE: usize = 30;

/// All queues.
pub(super) fn table(remote: &Remote, queues: &[Value]) -> Result<String, Failure> {
    let queues: Vec<_> = queues.iter().map(|queue| Queue::read(remote, queue)).collect::<Result<_, _>>()?;
    let head = ["queue", "state", "pending", "leased", "dead", "delivery"];
    let rows = queues.iter().map(|queue| {
        [
            clip(&printable(&queue.name), NAME_WIDE),
            queue.gate(),
            count(queue.counts.pending),
            count(queue.counts.processing + queue.counts.awaiting_ack),
            count(queue.counts.dead),
            clip(&queue.route(), NAME_WIDE),
        ]
    });
    let tone = |column: usize, cell: &str| match (column, cell) {
        (1, "open") => of_status("open"),
        (1, _) => Tone::Bad,
        (4, cell) if cell != "0" => Tone::Bad,
        _ => Tone::Plain,
    };
    Ok(painted(head, rows, Paint::stdout(), tone))
}

/// One queue: how it fares, its settings, and what should be looked at.
pub(super) fn whole(remote: &Remote, queue: &Value) -> Result<String, Failure> {
    let read = Queue::read(remote, queue)?;
    let (name, warnings) = (printable(&read.name), warned(&read.warnings));
    Ok(format!("{name}: {}\n{}\n{}{warnings}", read.gate(), facts(&read), settings_of(queue)))
}

/// A queue that has just been made: its settings, and what should be looked at.
pub(super) fn made(remote: &Remote, queue: &Value) -> Result<String, Failure> {
    let read = Queue::read(remote, queue)?;
    Ok(format!("{} was made\n{}{}", printable(&read.name), settings_of(queue), warned(&read.warnings)))
}

fn settings_of(queue: &Value) -> String {
    let settings = settings::of(queue.as_object().cloned().unwrap_or_default());
    let settings: Vec<_> = settings::flat(&settings).into_iter().collect();
    let lines =
        settings.iter().map(|(name, value)| (name.as_str(), Some(printable(&settings::shown(value)))));
    pairs(lines)
}

fn facts(queue: &Queue) -> String {
    let Counts { pending, processing, awaiting_ack, completed, dead, cancelled, oldest_ready } =
        &queue.counts;
    let [pending, processing, awaiting, completed, dead, cancelled] =
        [pending, processing, awaiting_ack, completed, dead, cancelled].map(|n| count(*n));
    let handlers = queue.handler_time.as_ref().map(|HandlerTime { count: n, p50, p99 }| {
        format!("p50 {p50:.3} s, p99 {p99:.3} s, of {} deliveries on this node", count(*n))
    });
    pairs([
        ("unfinished", Some(format!("{pending} pending, {processing} processing, {awaiting} awaiting ack"))),
        ("ended", Some(format!("{completed} completed, {dead} dead, {cancelled} cancelled"))),
        ("oldest ready", oldest_ready.as_deref().map(moment)),
        ("handler time", handlers),
    ])
}

/// What should be looked at.
pub(super) fn warnings(remote: &Remote, queue: &Map<String, Value>) -> Result<String, Failure> {
    Ok(warned(&Queue::read(remote, &Value::Object(queue.clone()))?.warnings))
}

fn warned(warnings: &[String]) -> String {
    let paint = Paint::stdout();
    let line = |text: &String| {
        let words = wrap(&printable(text), WARNING_WIDE).join("\n  ");
        format!("{}: {words}\n", paint.text(Tone::Bad, "warning"))
    };
    warnings.iter().map(line).collect()
}

/// How wide the words of a warning are, for lines that fit a terminal.
const WARNING_WIDE: usize = 90;

/// What is different now.
pub(super) fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let (before, after) = (settings::flat(before), settings::flat(after));
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let value =
        |value: Option<&Value>| value.map_or_else(|| "none".into(), |v| printable(&settings::shown(v)));
    pairs(changed.map(|name| {
        (name.as_str(), Some(format!("{} -> {}", value(before.get(name)), value(after.get(name)))))
    }))
}
