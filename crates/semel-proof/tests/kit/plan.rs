//! What is published over HTTP: everything about job number `n` follows from `n`, so that nobody has to remember it.

use std::net::SocketAddr;

use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::time::Millis;
use semel_proof::dice::{Dice, mixed};
use semel_proof::history::{Call, Promise};
use semel_proof::workload::digest;
use serde_json::{Value, json};

use super::http::Client;
use super::witness::Witness;

/// Attempts a job may use. Few, so that dead letters are common.
pub(crate) const CAP: u32 = 4;
/// How long keys hold and finished jobs are kept: longer than any test.
const LONG: Millis = Millis::from_days(30);
/// Groups that share the queue with strict order.
const GROUPS: u64 = 12;

/// One of the queues that are worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Pulled; nothing special.
    Plain,
    /// Pulled; strict order within groups, and collisions are refused.
    Strict,
    /// Pushed.
    Hooks,
}

impl Lane {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Strict, Self::Hooks];
    pub(crate) const PULLED: [Self; 2] = [Self::Plain, Self::Strict];

    fn of(n: u64) -> Self {
        match mixed(n ^ 0x5e71) % 10 {
            0..=5 => Self::Plain,
            6..=7 => Self::Strict,
            _ => Self::Hooks,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Strict => "strict",
            Self::Hooks => "hooks",
        }
    }

    /// The settings of its queue, and what its jobs are promised by them.
    pub(crate) fn queue(self, endpoint: SocketAddr) -> Queue {
        let delivery = match self {
            Self::Hooks => json!({"type": "push", "url": format!("http://{endpoint}/hooks"), "timeout": 5}),
            _ => json!({"type": "pull", "leaseSeconds": 2}),
        };
        let queue = Queue::new(self.name(), &delivery);
        match self {
            Self::Strict => queue.with("groupConcurrency", json!(1)).with("onCollision", json!("reject")),
            _ => queue,
        }
    }
}

/// A queue to make.
pub(crate) struct Queue {
    pub(crate) promise: Promise,
    pub(crate) settings: Value,
}

impl Queue {
    /// A queue whose failures are retried soon and whose jobs stay.
    pub(crate) fn new(name: &str, delivery: &Value) -> Self {
        let promise = Promise { queue: queue_name(name), cap: CAP, window: LONG, keep: LONG };
        let days = LONG.millis() / 1000;
        let settings = json!({
            "delivery": delivery,
            "retry": {"strategy": "fixed", "base": 0.2, "jitter": "none"},
            "maxAttempts": CAP,
            "window": days,
            "retention": {"completed": days, "dead": days},
            "deferScope": "job",
        });
        Self { promise, settings }
    }

    /// With one setting more.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.settings[name] = value;
        self
    }

    /// Makes it, and takes down what its jobs are promised.
    pub(crate) fn make(&self, client: &mut Client, witness: &Witness) {
        let path = format!("/v1/queues/{}", self.promise.queue);
        let answer = client.ask("PUT", &path, &self.settings.to_string()).unwrap();
        assert!(answer.status < 300, "{}", answer.text());
        witness.promise(self.promise.clone());
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName::try_from(name).expect("the names of the plan are valid")
}

/// A publish in the making: job number `n`, as it is or with one thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Under its key.
    Keyed,
    /// Under its key, with another payload.
    Collision,
    /// Without a key.
    Bare,
}

/// What to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) n: u64,
    pub(crate) kind: Kind,
    pub(crate) queue: &'static str,
}

impl Item {
    pub(crate) fn new(n: u64, kind: Kind) -> Self {
        Self { n, kind, queue: Lane::of(n).name() }
    }

    /// One that goes to a certain queue, whatever its number.
    pub(crate) fn keyed_in(queue: &'static str, n: u64) -> Self {
        Self { n, kind: Kind::Keyed, queue }
    }

    pub(crate) fn key(self) -> Option<String> {
        (self.kind != Kind::Bare).then(|| format!("k{}", self.n))
    }

    fn payload(self) -> Payload {
        let filler = "abcdefgh".repeat(usize::try_from(mixed(self.n) % 60).expect("a small number"));
        let (n, kind) = (self.n, self.kind);
        Payload::from_parsed(format!("{{\"n\":{n},\"kind\":\"{kind:?}\",\"filler\":\"{filler}\"}}"))
    }

    /// Whole seconds, because that is what the API takes; rarely any.
    fn delay(self) -> u64 {
        u64::from(Dice::new(mixed(self.n ^ 0xde1a)).chance(3))
    }

    /// The body of its publish.
    pub(crate) fn body(self) -> Value {
        let payload = self.payload();
        let payload: Value = serde_json::from_slice(payload.bytes()).expect("the plan writes JSON");
        let mut body = json!({ "payload": payload });
        if let Some(key) = self.key() {
            body["idempotencyKey"] = key.into();
        }
        if self.delay() > 0 {
            body["delay"] = self.delay().into();
        }
        if self.queue == Lane::Strict.name() {
            body["group"] = format!("g{}", mixed(self.n) % GROUPS).into();
        }
        body
    }

    /// The publish as a history tells it.
    pub(crate) fn call(self) -> Call {
        let key = self.key().map(|key| Key::try_from(key).expect("a short text is a key"));
        let payload = Payload::from_parsed(self.body()["payload"].to_string());
        let (queue, delay) = (queue_name(self.queue), Millis::from_secs(self.delay()));
        Call::Publish { queue, key, digest: digest(&payload), delay }
    }
}
