//! A publisher: new jobs, the same again, collisions, batches; and what it does not know, it asks again with the key.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::JobId;
use semel_proof::dice::{Dice, mixed};
use semel_proof::history::{Answer, Call, Op};
use serde_json::{Value, json};

use super::http::{Client, Response};
use super::plan::{Item, Kind, Lane};
use super::traffic::Shared;
use super::wire::Published;
use super::witness::Witness;

/// How long to leave a server alone that cannot be reached, or says that it has too much to do.
const LATER: Duration = Duration::from_millis(50);
/// How many of its jobs a publisher remembers, to cancel one now and then.
const MEMORY: usize = 64;

pub(crate) struct Publisher {
    shared: Arc<Shared>,
    client: Client,
    dice: Dice,
    /// Publishes with a key of which nobody knows what became.
    doubtful: VecDeque<Item>,
    published: VecDeque<JobId>,
}

impl Publisher {
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Self {
        let client = Client::of(&shared.door);
        let dice = Dice::new(mixed(shared.seed ^ (number << 32)));
        Self { shared, client, dice, doubtful: VecDeque::new(), published: VecDeque::new() }
    }

    /// Publishes until told to stop, and then asks for everything that is still in doubt.
    pub(crate) fn run(mut self) {
        while !self.shared.stop.is_given() {
            if !self.step() {
                self.shared.stop.wait(LATER);
            }
        }
        while let Some(item) = self.doubtful.pop_front() {
            if !self.publish(item) {
                self.shared.abandon.wait(LATER);
            }
            if self.shared.abandon.is_given() {
                return;
            }
        }
    }

    /// One request. False if there is no sense in going on at once.
    fn step(&mut self) -> bool {
        if let Some(item) = self.doubtful.pop_front() {
            return self.publish(item);
        }
        match self.dice.below(100) {
            0..=9 => self.publish_batch(),
            10..=11 if self.shared.cancels => self.cancel(),
            _ => {
                let item = self.item();
                self.publish(item)
            }
        }
    }

    fn item(&mut self) -> Item {
        let kind = self.dice.below(100);
        if kind < 70 {
            return Item::new(self.shared.new_number(), Kind::Keyed);
        }
        if kind < 80 {
            return Item::new(self.shared.new_number(), Kind::Bare);
        }
        let old = self.shared.known_number(&mut self.dice);
        Item::new(old, if kind < 95 { Kind::Keyed } else { Kind::Collision })
    }

    fn publish(&mut self, item: Item) -> bool {
        if self.client.connect().is_err() {
            return self.doubt_again(item);
        }
        let answer = publish(&self.shared.witness, &mut self.client, item);
        self.learn(item, &answer)
    }

    /// Nothing was asked, so nothing is in doubt; but what was in doubt before still is.
    fn doubt_again(&mut self, item: Item) -> bool {
        if item.kind != Kind::Bare {
            self.doubtful.push_back(item);
        }
        false
    }

    fn learn(&mut self, item: Item, answer: &Result<Published, (u16, String)>) -> bool {
        match answer {
            Ok(published) => self.remember(published.id()),
            Err((400..500, _)) => {}
            Err(_) => return self.doubt_again(item),
        }
        true
    }

    /// Several at once, each with an answer of its own.
    fn publish_batch(&mut self) -> bool {
        let lane = Lane::ALL[self.dice.index(Lane::ALL.len())];
        let items: Vec<_> = (0..self.dice.within(2..=20))
            .map(|_| Item::new(self.shared.new_number(), Kind::Keyed))
            .filter(|item| item.queue == lane.name())
            .collect();
        if items.is_empty() || self.client.connect().is_err() {
            return false;
        }
        self.send_batch(lane, &items)
    }

    fn send_batch(&mut self, lane: Lane, items: &[Item]) -> bool {
        let calls: Vec<_> = items.iter().map(|item| item.call()).collect();
        let first = self.shared.witness.invoke(&calls);
        let jobs: Vec<_> = items.iter().map(|item| item.body()).collect();
        let path = format!("/v1/queues/{}/jobs/batch", lane.name());
        let answer = answer_or_problem(self.client.post(&path, &json!({ "jobs": jobs }).to_string()));
        let mut fine = true;
        for ((op, item), at) in (first..).zip(items).zip(0..) {
            let answer = noted(&self.shared.witness, op, of_batch(&answer, at));
            fine &= self.learn(*item, &answer);
        }
        fine
    }

    fn cancel(&mut self) -> bool {
        let Some(id) = self.published.pop_front() else { return true };
        if self.client.connect().is_err() {
            return false;
        }
        let op = self.shared.witness.invoke(&[Call::Cancel { id }]);
        match answer_or_problem(self.client.post(&format!("/v1/jobs/{id}/cancel"), "")) {
            Ok(_) => self.shared.witness.ok(op, Answer::Cancelled),
            Err((400..500, why)) => self.shared.witness.fail(op, why),
            Err((_, why)) => self.shared.witness.unknown(op, why),
        }
        true
    }

    fn remember(&mut self, id: JobId) {
        self.published.push_back(id);
        if self.published.len() > MEMORY {
            self.published.pop_front();
        }
    }
}

/// Publishes one job, and takes down what was asked and answered.
pub(crate) fn publish(
    witness: &Witness,
    client: &mut Client,
    item: Item,
) -> Result<Published, (u16, String)> {
    let op = witness.invoke(&[item.call()]);
    let path = format!("/v1/queues/{}/jobs", item.queue);
    let answer = client.post(&path, &item.body().to_string());
    noted(witness, op, answer_or_problem(answer))
}

/// Takes down the answer to a publish.
fn noted(
    witness: &Witness,
    op: Op,
    answer: Result<Value, (u16, String)>,
) -> Result<Published, (u16, String)> {
    match answer {
        Ok(published) => {
            let published: Published = serde_json::from_value(published).expect("the answer to a publish");
            witness.ok(op, published.answer());
            return Ok(published);
        }
        Err((400..500, ref why)) => witness.fail(op, why.clone()),
        Err((_, ref why)) => witness.unknown(op, why.clone()),
    }
    Err(answer.expect_err("anything else was returned above"))
}

/// What was answered, or the status and the code of a problem. What was lost on the way has the status 0.
pub(crate) fn answer_or_problem(answer: io::Result<Response>) -> Result<Value, (u16, String)> {
    match answer {
        Ok(answer) if answer.status < 300 => Ok(answer.json()),
        Ok(answer) => {
            // Whoever is turned away is told when to come back.
            let passing = answer.json()["retryable"] == true && answer.status >= 500;
            assert!(!passing || answer.header("retry-after").is_some(), "no Retry-After: {answer:?}");
            Err((answer.status, answer.code()))
        }
        Err(lost) => Err((0, lost.to_string())),
    }
}

/// The answer to one item of a batch.
pub(crate) fn of_batch(answer: &Result<Value, (u16, String)>, at: usize) -> Result<Value, (u16, String)> {
    let item = &answer.as_ref().map_err(Clone::clone)?["results"][at];
    match (item["code"].as_str(), item["status"].as_u64()) {
        (Some(code), Some(status)) => Err((u16::try_from(status).expect("a status"), code.to_owned())),
        _ => Ok(item.clone()),
    }
}
