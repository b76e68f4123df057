//! Pulling here and pushing to a webhook, as the server would push: for webhooks that no server can reach.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_client::{Delivery, Effect, Handler, Outcome, Scope};
use semel_core::outcome::{self, DeferScope, of_error, receipt_of};
use semel_core::payload::Payload;
use semel_core::queue::PushMode;
use semel_core::settle::RETRY_AFTER_DEFAULT;
use semel_core::time::{Millis, Timestamp};
use semel_server::delivery::call::{Answer, Call, Caller, CallerOptions};
use semel_server::delivery::dial::TcpDial;
use semel_server::delivery::endpoint::Endpoint;
use semel_server::delivery::guard::Guard;
use semel_server::delivery::message::{self, Envelope, Seal};
use semel_server::delivery::resolve::SystemResolver;
use semel_server::delivery::{told, trace};
use semel_server::journal::Line;
use semel_store::{Clock, SystemClock};
use serde_json::json;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::screen::Screen;

/// Where deliveries are forwarded to.
#[derive(Debug)]
pub(crate) struct Forward {
    /// The webhook.
    pub(crate) to: Endpoint,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// What signs.
    pub(crate) secret: String,
    /// Whether it may be anywhere, as opposed to on this machine.
    pub(crate) anywhere: bool,
    /// How many at once.
    pub(crate) at_once: usize,
    /// Whether each delivery is told as JSON.
    pub(crate) json: bool,
}

/// Forwards deliveries, as the handler of a worker.
pub(crate) struct Forwarder {
    forward: Forward,
    to: Arc<Endpoint>,
    caller: Caller,
    clock: SystemClock,
    screen: Screen,
}

/// What came of one call.
struct Called {
    status: Option<u16>,
    effect: Option<Effect>,
    outcome: outcome::Outcome,
    took: Duration,
}

impl Forwarder {
    /// A forwarder that has called nobody yet.
    pub(crate) fn new(forward: Forward) -> Result<Self, Failure> {
        let guard = if forward.anywhere { Guard::open_to_all() } else { Guard::open_to_loopback() };
        let caller = Caller::new(CallerOptions {
            guard,
            resolver: Arc::new(SystemResolver),
            dial: Arc::new(TcpDial),
            extra_ca: None,
            idle_per_host: forward.at_once,
        });
        let caller = caller.map_err(|error| Failure::Usage(error.to_string()))?;
        let (to, screen) = (Arc::new(forward.to.clone()), Screen::on(&io::stdout()));
        Ok(Self { forward, to, caller, clock: SystemClock::new(), screen })
    }

    async fn call(&self, delivery: &Delivery) -> Called {
        let body = serde_json::to_vec(delivery).expect("a delivery is plain data");
        let now = self.clock.now();
        let headers = message::headers(&envelope(delivery, &body), &self.seal(now));
        let call = Call { url: self.to.clone(), headers, body: body.into(), timeout: self.forward.timeout };
        let began = Instant::now();
        let answered = self.caller.call(call).await;
        let took = began.elapsed();
        match answered {
            Ok(answer) => Called {
                status: Some(answer.status),
                effect: effect_of(&answer),
                outcome: answer.outcome(PushMode::Standard, self.clock.now()),
                took,
            },
            Err(error) => Called { status: None, effect: None, outcome: of_error(&error), took },
        }
    }

    fn seal(&self, now: Timestamp) -> Seal<'_> {
        Seal { secrets: vec![&self.forward.secret], simpleq: false, seconds: now.millis() / 1000 }
    }

    fn line(&self, delivery: &Delivery, called: &Called) -> String {
        let Delivery { id, queue, attempt, max_attempts, .. } = delivery;
        let gloss = told::gloss(id, (*attempt, *max_attempts), &called.outcome);
        let (at, took) = (self.clock.now(), Some(called.took));
        if self.forward.json {
            let time = jiff::Timestamp::from_millisecond(i64::try_from(at.millis()).unwrap_or(i64::MAX));
            return json!({
                "at": format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX)),
                "queue": queue,
                "job": id,
                "attempt": attempt,
                "status": called.status,
                "milliseconds": called.took.as_millis(),
                "outcome": name_of(&called.outcome),
                "said": gloss.words,
            })
            .to_string();
        }
        let place = format!("{queue} -> {}", self.to.shown());
        self.screen.line(&Line {
            at,
            what: "push".into(),
            place,
            status: called.status,
            took,
            gloss: Some(gloss),
        })
    }
}

impl Handler for Forwarder {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let called = self.call(&delivery).await;
        // Somebody who no longer reads along still wants the job settled.
        if let Err(failure) = crate::cli::print(&format!("{}\n", self.line(&delivery, &called)))
            && !failure.is_broken_pipe()
        {
            tracing::warn!(%failure, "a delivery could not be shown");
        }
        settled(called)
    }
}

fn envelope<'a>(delivery: &'a Delivery, body: &'a [u8]) -> Envelope<'a> {
    Envelope {
        id: &delivery.id,
        key: delivery.idempotency_key.as_deref(),
        traceparent: delivery.metadata.get(trace::METADATA_NAME).map(String::as_str),
        token: delivery.token().unwrap_or_default(),
        possibly_applied: delivery.possibly_applied,
        body,
    }
}

fn effect_of(answer: &Answer) -> Option<Effect> {
    let receipt = answer.semel_effect.as_deref().and_then(receipt_of)?;
    Some(match receipt.outcome {
        outcome::Effect::Applied => Effect::Applied,
        outcome::Effect::Replayed => Effect::Replayed,
        outcome::Effect::None => Effect::None,
    })
}

/// What a worker says who was answered like this.
fn settled(called: Called) -> Outcome {
    let said = match called.outcome {
        outcome::Outcome::Done { result, .. } => done(result.as_ref()),
        outcome::Outcome::Backpressure { retry_after, scope, reason } => {
            let wait = retry_after.unwrap_or(RETRY_AFTER_DEFAULT);
            later(wait, scope).because(reason.unwrap_or_default())
        }
        outcome::Outcome::Rejected { error } => Outcome::reject(error),
        outcome::Outcome::Failed { error } => Outcome::fail(error),
        outcome::Outcome::Received | outcome::Outcome::Expired => {
            Outcome::fail("the webhook's answer makes no sense here")
        }
    };
    match called.effect {
        Some(effect) => said.receipt(effect, None),
        None => said,
    }
}

fn done(result: Option<&Payload>) -> Outcome {
    let text = result.and_then(|result| String::from_utf8(result.bytes().to_vec()).ok());
    match text.and_then(|text| RawValue::from_string(text).ok()) {
        Some(result) => Outcome::done_with(&*result),
        None => Outcome::done(),
    }
}

fn later(wait: Millis, scope: Option<DeferScope>) -> Outcome {
    let later = Outcome::defer(Duration::from_millis(wait.millis()));
    match scope {
        Some(DeferScope::Queue) => later.scope(Scope::Queue),
        Some(DeferScope::Job) => later.scope(Scope::Job),
        None => later.scope_of_the_queue(),
    }
}

fn name_of(outcome: &outcome::Outcome) -> &'static str {
    match outcome {
        outcome::Outcome::Done { .. } => "done",
        outcome::Outcome::Received => "received",
        outcome::Outcome::Failed { .. } => "failed",
        outcome::Outcome::Backpressure { .. } => "deferred",
        outcome::Outcome::Rejected { .. } => "rejected",
        outcome::Outcome::Expired => "expired",
    }
}
