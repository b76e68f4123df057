//! A delivery as it comes to a worker, and what a worker says of it.

use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::payload::Payload;
use semel_core::time::{Millis, Timestamp};
use semel_proof::history::{Answer, Call, Delivered, Say};
use semel_proof::workload::digest;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::journal::Open;
use crate::lanes::LEASE;
use crate::line::{Line, Told};
use crate::world::World;

/// How often a worker says the same again when nobody answers. Then it gives up: the lease runs out.
const TRIES: u32 = 3;

/// A delivery, as a lease or a webhook shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Package {
    id: String,
    payload: Box<RawValue>,
    attempt: u32,
    max_attempts: u32,
    defer_count: u32,
    idempotency_key: Option<String>,
    lease: String,
    deadline: String,
}

/// The answer to a settle or an extension.
#[derive(Debug, Deserialize)]
struct Settled {
    status: Option<String>,
    due: Option<String>,
    deadline: Option<String>,
}

/// A time of the API.
pub(crate) fn time(text: &str) -> Timestamp {
    let time: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_millis(u64::try_from(time.as_millisecond()).unwrap())
}

impl Package {
    pub(crate) fn id(&self) -> JobId {
        self.id.parse().unwrap()
    }

    pub(crate) fn token(&self) -> Token {
        self.lease.parse().unwrap()
    }

    /// The same as a history tells it.
    pub(crate) fn delivered(&self) -> Delivered {
        Delivered {
            id: self.id(),
            token: self.token(),
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            deferrals: self.defer_count,
            deadline: time(&self.deadline),
            digest: digest(&Payload::from_parsed(self.payload.get().to_owned())),
            key: self.idempotency_key.as_deref().map(|key| Key::try_from(key).unwrap()),
        }
    }

    /// Settles it, and repeats that while nobody answers.
    pub(crate) async fn settle(&self, world: &World, line: &mut Line, say: Say, effect: &str) {
        let (verb, body) = self.words(say, effect);
        for try_number in 0..TRIES {
            let call = Call::Settle { id: self.id(), token: self.token(), say };
            let open = world.journal.open(&call);
            let told = line.post(&format!("/v1/jobs/{}/{verb}", self.id), &body).await;
            // An answer to a repeat may be about the first, which then was the one that took effect.
            if conclude(open, told, |settled| settled.settled(try_number > 0)) {
                return;
            }
        }
    }

    /// Keeps it longer.
    pub(crate) async fn extend(&self, world: &World, line: &mut Line) {
        let open = world.journal.open(&Call::Extend { id: self.id(), token: self.token() });
        let body = json!({ "lease": self.lease, "seconds": LEASE.millis() / 1000 });
        let told = line.post(&format!("/v1/jobs/{}/extend", self.id), &body).await;
        conclude(open, told, |settled| Answer::Extended { until: time(&settled.deadline.unwrap()) });
    }

    fn words(&self, say: Say, effect: &str) -> (&'static str, Value) {
        let lease = &self.lease;
        match say {
            Say::Ack => ("ack", json!({ "lease": lease, "effect": { "outcome": effect } })),
            Say::Nack => ("nack", json!({ "lease": lease })),
            Say::Reject => ("nack", json!({ "lease": lease, "retryable": false })),
            Say::Defer => ("defer", json!({ "lease": lease, "retryAfter": 0.5, "scope": "job" })),
            Say::Receive => unreachable!("a worker receives by answering its webhook"),
        }
    }
}

impl Settled {
    fn settled(self, repeated: bool) -> Answer {
        let name = self.status.unwrap();
        let state = State::ALL.into_iter().find(|state| state.name() == name).unwrap();
        Answer::Settled { state, due: self.due.as_deref().map(time), repeated }
    }
}

/// Writes down how a call ended, and says whether it is known.
fn conclude(open: Open, told: Told, answer: impl FnOnce(Settled) -> Answer) -> bool {
    match told {
        Told::Ok(body) => open.ok(answer(serde_json::from_slice(&body).unwrap())),
        Told::Refused(code) => open.fail(&code),
        Told::Unknown(why) => {
            open.unknown(&why);
            return false;
        }
    }
    true
}

/// A span for a timer.
pub(crate) fn lasting(span: Millis) -> std::time::Duration {
    std::time::Duration::from_millis(span.millis())
}
