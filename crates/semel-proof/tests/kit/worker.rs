//! A worker that pulls: it leases, settles one by one or in batches, extends, forgets, and repeats what it does not know.

use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::{JobId, Token};
use semel_core::time::Millis;
use semel_proof::dice::{Dice, mixed};
use semel_proof::history::{Answer, Call, Op, Say};
use serde_json::{Value, json};

use super::http::Client;
use super::plan::{Lane, queue_name};
use super::publisher::{answer_or_problem, of_batch};
use super::traffic::Shared;
use super::wire::{Leased, Settled};

/// How long to leave a server alone that cannot be reached.
const LATER: Duration = Duration::from_millis(50);
/// How often a settle of unknown fate is sent again before the lease is left to run out.
const TRIES: u32 = 5;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    client: Client,
    dice: Dice,
    lane: Lane,
}

/// What a worker is about to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Settle(Say),
    Extend,
}

#[derive(Debug, Clone, Copy)]
struct Saying {
    id: JobId,
    token: Token,
    word: Word,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Self {
        let client = Client::of(&shared.door);
        let dice = Dice::new(mixed(shared.seed ^ (number << 40)));
        let lane = if number % 3 == 2 { Lane::Strict } else { Lane::Plain };
        Self { shared, client, dice, lane }
    }

    /// Works until everything is drained.
    pub(crate) fn run(mut self) {
        while !self.shared.abandon.is_given() {
            match self.lease() {
                Some(deliveries) => self.work(deliveries),
                None => drop(self.shared.abandon.wait(LATER)),
            }
            // With few workers no queue may be left alone for long.
            if self.dice.chance(30) {
                self.lane = Lane::PULLED[self.dice.index(Lane::PULLED.len())];
            }
        }
    }

    fn lease(&mut self) -> Option<Vec<(JobId, Token)>> {
        self.client.connect().ok()?;
        // While draining nobody waits at an empty queue for what is in another one.
        let draining = self.shared.stop.is_given();
        let (max, wait) = if draining { (256, 0) } else { (self.dice.within(1..=24), self.dice.below(2)) };
        let seconds = self.dice.within(1..=2);
        let (queue, duration) = (queue_name(self.lane.name()), Millis::from_secs(seconds));
        let op = self.shared.witness.invoke(&[Call::Lease { queue, duration }]);
        let body = json!({"max": max, "wait": wait, "leaseSeconds": seconds}).to_string();
        match self.client.post(&format!("/v1/queues/{}/lease", self.lane.name()), &body) {
            Ok(answer) if answer.status == 200 => {
                let leased: Leased = answer.read();
                let all: Vec<_> = leased.jobs.iter().map(super::wire::Delivery::delivered).collect();
                let hands = all.iter().map(|delivered| (delivered.id, delivered.token)).collect();
                self.shared.witness.ok(op, Answer::Leased(all));
                Some(hands)
            }
            other => {
                self.shared.witness.unknown(op, format!("{other:?}"));
                None
            }
        }
    }

    fn work(&mut self, deliveries: Vec<(JobId, Token)>) {
        let says =
            deliveries.into_iter().filter_map(|(id, token)| Some(Saying { id, token, word: self.word()? }));
        let sayings: Vec<_> = says.collect();
        let extended = sayings.iter().filter(|saying| saying.word == Word::Extend).copied();
        let then: Vec<_> = extended.map(|saying| Saying { word: Word::Settle(Say::Ack), ..saying }).collect();
        self.say_all(sayings);
        self.say_all(then);
    }

    /// What becomes of a delivery; `None` leaves it to run out. While draining, everything is done well.
    fn word(&mut self) -> Option<Word> {
        if self.shared.stop.is_given() {
            return Some(Word::Settle(Say::Ack));
        }
        Some(match self.dice.below(100) {
            0..=75 => Word::Settle(Say::Ack),
            76..=83 => Word::Settle(Say::Nack),
            84..=86 => Word::Settle(Say::Reject),
            87..=92 => Word::Settle(Say::Defer),
            93..=97 => Word::Extend,
            _ => return None,
        })
    }

    /// Says everything, and what was left in doubt again: then the answer may be to the first time.
    fn say_all(&mut self, mut sayings: Vec<Saying>) {
        for tried in 0..TRIES {
            let repeated = tried > 0;
            sayings = if sayings.len() > 1 && self.dice.chance(70) {
                self.say_together(&sayings, repeated)
            } else {
                sayings.into_iter().filter(|saying| !self.say(*saying, repeated)).collect()
            };
            if sayings.is_empty() || self.shared.abandon.wait(LATER) {
                return;
            }
        }
    }

    /// False if it is not known what became of it.
    fn say(&mut self, saying: Saying, repeated: bool) -> bool {
        if self.client.connect().is_err() {
            return false;
        }
        let op = self.shared.witness.invoke(&[saying.call()]);
        let (path, body) = (format!("/v1/jobs/{}/{}", saying.id, saying.verb()), saying.body());
        let answer = answer_or_problem(self.client.post(&path, &body.to_string()));
        self.note(op, answer, repeated)
    }

    /// Returns those of which it is not known what became.
    fn say_together(&mut self, sayings: &[Saying], repeated: bool) -> Vec<Saying> {
        if self.client.connect().is_err() {
            return sayings.to_vec();
        }
        let calls: Vec<_> = sayings.iter().map(|saying| saying.call()).collect();
        let first = self.shared.witness.invoke(&calls);
        let items: Vec<_> = sayings.iter().map(|saying| saying.item()).collect();
        let answer =
            answer_or_problem(self.client.post("/v1/settle", &json!({ "items": items }).to_string()));
        let doubtful = (first..)
            .zip(sayings)
            .zip(0..)
            .filter(|((op, _), at)| !self.note(*op, of_batch(&answer, *at), repeated));
        doubtful.map(|((_, saying), _)| *saying).collect()
    }

    fn note(&self, op: Op, answer: Result<Value, (u16, String)>, repeated: bool) -> bool {
        match answer {
            Ok(settled) => {
                let settled: Settled = serde_json::from_value(settled).expect("the answer to a settle");
                self.shared.witness.ok(op, settled.answer(repeated));
                true
            }
            Err((400..500, why)) => {
                self.shared.witness.fail(op, why);
                true
            }
            Err((_, why)) => {
                self.shared.witness.unknown(op, why);
                false
            }
        }
    }
}

impl Saying {
    fn call(self) -> Call {
        let Self { id, token, word } = self;
        match word {
            Word::Settle(say) => Call::Settle { id, token, say },
            Word::Extend => Call::Extend { id, token },
        }
    }

    fn verb(self) -> &'static str {
        match self.word {
            Word::Settle(Say::Ack | Say::Receive) => "ack",
            Word::Settle(Say::Nack | Say::Reject) => "nack",
            Word::Settle(Say::Defer) => "defer",
            Word::Extend => "extend",
        }
    }

    fn body(self) -> Value {
        let mut body = json!({ "lease": self.token.to_string() });
        match self.word {
            Word::Settle(Say::Reject) => body["retryable"] = false.into(),
            Word::Settle(Say::Defer) => body["retryAfter"] = 0.1.into(),
            Word::Extend => body["seconds"] = 3.into(),
            Word::Settle(_) => {}
        }
        body
    }

    fn item(self) -> Value {
        let mut item = self.body();
        item["id"] = self.id.to_string().into();
        item["action"] = self.verb().into();
        item
    }
}
