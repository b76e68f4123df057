//! What is told of one step of a job's way.
//!
//! Names and attributes are those of OpenTelemetry's conventions for messaging; what they have no word for is under `semel.`.
//! No payload, no key and no group is told.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use semel_core::ids::JobId;
use semel_core::name::QueueName;
use semel_core::outcome::{Effect, Outcome};

use super::context::Context;

/// A step that began. Its end is measured from there: a clock that is set meanwhile does not make it negative.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    at: SystemTime,
    since: Instant,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { at: SystemTime::now(), since: Instant::now() }
    }

    /// When it began and when it ended, if that is now; in nanoseconds since 1970.
    fn to_now(self) -> (u64, u64) {
        let start = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        (nanos(start), nanos(start + self.since.elapsed()))
    }
}

/// What a span is in its trace, with the number OTLP gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

/// What the conventions call a kind of step (`messaging.operation.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Publish,
    Deliver,
    /// Which verb it was.
    Settle(&'static str),
}

impl Step {
    fn kind_of_operation(self) -> &'static str {
        match self {
            Self::Publish => "send",
            Self::Deliver => "process",
            Self::Settle(_) => "settle",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Deliver => "deliver",
            Self::Settle(verb) => verb,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// A step that ended.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "nobody reads a span in a program that sends none")
)]
pub(super) struct Span {
    pub(super) context: Context,
    pub(super) parent: Option<u64>,
    pub(super) link: Option<Context>,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// What happened at its end, and is neither a success nor a failure.
    pub(super) event: Option<&'static str>,
    pub(super) error: Option<String>,
}

impl Span {
    /// A step that ends now.
    pub(super) fn new(
        step: Step,
        kind: Kind,
        context: Context,
        queue: Option<&QueueName>,
        began: Began,
    ) -> Self {
        let (start, end) = began.to_now();
        let attributes = vec![
            ("messaging.system", Value::Text("semel".to_owned())),
            ("messaging.operation.name", Value::Text(step.name().to_owned())),
            ("messaging.operation.type", Value::Text(step.kind_of_operation().to_owned())),
        ];
        let name = queue.map_or_else(|| step.name().to_owned(), |queue| format!("{} {queue}", step.name()));
        let span = Self {
            context,
            parent: None,
            link: None,
            name,
            kind,
            start,
            end,
            attributes,
            event: None,
            error: None,
        };
        match queue {
            Some(queue) => span.with("messaging.destination.name", Value::Text(queue.to_string())),
            None => span,
        }
    }

    pub(super) fn under(self, parent: Option<Context>) -> Self {
        Self { parent: parent.map(Context::span), ..self }
    }

    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.attributes.push((name, value));
        self
    }

    pub(super) fn about(self, job: JobId) -> Self {
        self.with("messaging.message.id", Value::Text(job.to_string()))
    }

    /// It failed, for a reason from a fixed list.
    pub(super) fn failed(self, reason: &str) -> Self {
        let span = self.with("error.type", Value::Text(reason.to_owned()));
        Self { error: Some(reason.to_owned()), ..span }
    }

    /// A duplicate was met: an attribute to search by, and an event that shows in the trace.
    pub(super) fn marked(self, attribute: &'static str, event: &'static str) -> Self {
        Self { event: Some(event), ..self.with(attribute, Value::Truth(true)) }
    }

    /// What a worker said of the effect.
    pub(super) fn with_effect(self, effect: Option<Effect>) -> Self {
        let name = match effect {
            None => return self,
            Some(Effect::Applied) => "applied",
            Some(Effect::Replayed) => "replayed",
            Some(Effect::None) => "none",
        };
        let span = self.with("semel.effect", Value::Text(name.to_owned()));
        if effect == Some(Effect::Replayed) {
            return span.marked("semel.deduplicated", "effect.replayed");
        }
        span
    }
}

/// How a delivery ended, in one word, and whether that is a failure.
pub(super) fn word(outcome: &Outcome) -> (&'static str, bool) {
    match outcome {
        Outcome::Done { .. } => ("done", false),
        Outcome::Received => ("received", false),
        Outcome::Backpressure { .. } => ("deferred", false),
        Outcome::Failed { .. } => ("failed", true),
        Outcome::Rejected { .. } => ("rejected", true),
        Outcome::Expired => ("expired", true),
    }
}

/// What the worker said of the effect, if it is done.
pub(super) fn effect_of(outcome: &Outcome) -> Option<Effect> {
    match outcome {
        Outcome::Done { effect, .. } => effect.as_ref().map(|receipt| receipt.outcome),
        _ => None,
    }
}
