//! The spans of a delivery: on its way to a webhook, or handed out to a worker that asked.
//!
//! A token is given out once, so its number is the number of the delivery's span: the worker gets it as the parent of what it
//! does, and whoever settles brings it back.

use std::sync::Arc;

use semel_core::lease::Delivery;
use semel_core::lifecycle::State;
use semel_core::outcome::{Effect, Outcome};

use super::span::{Began, Kind, Span, Step, Value, effect_of, word};
use super::{Context, Recorder, Telemetry};

/// A delivery by webhook, under way.
pub(crate) struct Delivering {
    recorder: Arc<Recorder>,
    context: Context,
    began: Began,
}

/// A delivery that was answered, and is being settled.
pub(crate) struct Answered {
    recorder: Arc<Recorder>,
    delivery: Context,
    verb: &'static str,
    effect: Option<Effect>,
    began: Began,
}

impl Telemetry {
    /// A delivery by webhook begins.
    pub(crate) fn delivering(&self, delivery: &Delivery) -> Option<Delivering> {
        let recorder = self.recorder()?;
        let context = Context::of_delivery(delivery).filter(|context| context.is_sampled())?;
        Some(Delivering { recorder: recorder.clone(), context, began: Began::now() })
    }

    /// Deliveries were handed out to a worker. Their spans end here, so that they are seen even if the worker dies; it is
    /// remembered where they belong, for the settle.
    pub(crate) fn handed_out(&self, deliveries: &[Delivery], began: Option<Began>) {
        let (Some(recorder), Some(began)) = (self.recorder(), began) else { return };
        for delivery in deliveries {
            let Some(context) = Context::of_delivery(delivery).filter(|context| context.is_sampled()) else {
                continue;
            };
            recorder.record(span(Kind::Consumer, context, delivery, began));
            recorder.handed().put(delivery.token, context);
        }
    }

    /// The time, if anybody wants to know it.
    pub(crate) fn began(&self) -> Option<Began> {
        self.recorder().map(|_| Began::now())
    }
}

impl Delivering {
    /// The webhook answered, or did not.
    pub(crate) fn answered(self, delivery: &Delivery, outcome: &Outcome, status: Option<u16>) -> Answered {
        let Self { recorder, context, began } = self;
        let (word, failed) = word(outcome);
        let mut sent =
            span(Kind::Client, context, delivery, began).with("semel.outcome", Value::Text(word.to_owned()));
        if let Some(status) = status {
            sent = sent.with("http.response.status_code", Value::Number(i64::from(status)));
        }
        recorder.record(if failed { sent.failed(word) } else { sent });
        if *outcome == Outcome::Received {
            recorder.handed().put(delivery.token, context);
        }
        let (verb, effect) = (verb(outcome), effect_of(outcome));
        Answered { recorder, delivery: context, verb, effect, began: Began::now() }
    }
}

impl Answered {
    /// The answer is stored, and the job stands here; or it could not be stored, or no longer counted.
    pub(crate) fn settled(self, delivery: &Delivery, state: Option<State>) {
        let (step, queue) = (Step::Settle(self.verb), &delivery.spec.queue);
        let span = Span::new(step, Kind::Internal, self.delivery.child(), Some(queue), self.began)
            .under(Some(self.delivery))
            .about(delivery.id)
            .with_effect(self.effect);
        self.recorder.record(match state {
            Some(state) => span.with("semel.status", Value::Text(state.name().to_owned())),
            None => span.failed("not_settled"),
        });
    }
}

fn span(kind: Kind, context: Context, delivery: &Delivery, began: Began) -> Span {
    Span::new(Step::Deliver, kind, context, Some(&delivery.spec.queue), began)
        .under(Context::of_job(&delivery.spec))
        .about(delivery.id)
        .with("semel.attempt", Value::Number(i64::from(delivery.attempt)))
}

/// What settling with this outcome is called.
pub(super) fn verb(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { .. } => "ack",
        Outcome::Received => "receive",
        Outcome::Backpressure { .. } => "defer",
        Outcome::Failed { .. } | Outcome::Rejected { .. } | Outcome::Expired => "nack",
    }
}
