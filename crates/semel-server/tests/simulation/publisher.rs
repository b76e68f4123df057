//! Publishers: a few keys, over and over, and the same again whenever nobody answered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::payload::Payload;
use semel_core::time::Millis;
use semel_proof::dice::Dice;
use semel_proof::history::{Answer, Call};
use semel_proof::workload::digest;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::journal::Open;
use crate::lanes::Lane;
use crate::line::{Line, Problem, Told};
use crate::package::time;
use crate::world::World;

/// How many keys the publishers share, per queue. Few, so that they meet.
const KEYS: u64 = 20;

/// A publisher. What is on its desk survives its crashes, as an outbox does.
pub(crate) struct Publisher {
    number: u64,
    world: Arc<World>,
    desk: Mutex<Desk>,
}

struct Desk {
    dice: Dice,
    count: u64,
    order: Option<Order>,
    known: Vec<JobId>,
}

/// Something to be done until it is known to be done.
#[derive(Debug, Clone)]
enum Order {
    Publish(Lane, Vec<Item>),
    Cancel(JobId),
}

/// One job to publish.
#[derive(Debug, Clone)]
struct Item {
    key: Option<String>,
    payload: Value,
    delay: u64,
}

/// The answer to a publish.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Published {
    id: String,
    created_at: String,
    deduplicated: bool,
    payload_matches: bool,
}

/// The answer to one item of a batch.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ItemAnswer {
    Published(Published),
    Problem(Problem),
}

#[derive(Debug, Deserialize)]
struct BatchAnswer {
    results: Vec<ItemAnswer>,
}

impl Publisher {
    pub(crate) fn new(world: Arc<World>, number: u64) -> Arc<Self> {
        let desk = Desk { dice: world.dice(number), count: 0, order: None, known: Vec::new() };
        Arc::new(Self { number, world, desk: Mutex::new(desk) })
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.world.is_calm() && self.desk.lock().unwrap().order.is_none()
    }

    /// Publishes until calm, and then until the last publish is answered.
    pub(crate) async fn run(self: Arc<Self>) -> turmoil::Result {
        let mut line = Line::default();
        while let Some((order, pause)) = self.next() {
            sleep(pause).await;
            if self.carry_out(&mut line, &order).await || !order.is_repeatable() {
                self.desk.lock().unwrap().order = None;
            }
        }
        Ok(())
    }

    /// What is on the desk, or else something new; `None` when it is over. And how long to wait before.
    fn next(&self) -> Option<(Order, Duration)> {
        let mut desk = self.desk.lock().unwrap();
        let pause = Duration::from_millis(desk.dice.within(10..=150));
        if desk.order.is_none() && !self.world.is_calm() {
            desk.order = Some(desk.invent(self.number));
        }
        desk.order.clone().map(|order| (order, pause))
    }

    /// Does it once, and says whether it is known to be done.
    async fn carry_out(&self, line: &mut Line, order: &Order) -> bool {
        match order {
            Order::Cancel(id) => self.cancel(line, *id).await,
            Order::Publish(lane, items) if items.len() == 1 => self.publish(line, *lane, &items[0]).await,
            Order::Publish(lane, items) => self.publish_batch(line, *lane, items).await,
        }
    }

    async fn publish(&self, line: &mut Line, lane: Lane, item: &Item) -> bool {
        let open = self.world.journal.open(&item.call(lane));
        let path = format!("/v1/queues/{}/jobs", lane.name());
        match line.post(&path, &item.body()).await {
            Told::Ok(body) => self.learn(open, &serde_json::from_slice(&body).unwrap()),
            Told::Refused(code) => open.fail(&code),
            Told::Unknown(why) => {
                open.unknown(&why);
                return false;
            }
        }
        true
    }

    async fn publish_batch(&self, line: &mut Line, lane: Lane, items: &[Item]) -> bool {
        let opened: Vec<_> = items.iter().map(|item| self.world.journal.open(&item.call(lane))).collect();
        let path = format!("/v1/queues/{}/jobs/batch", lane.name());
        let jobs: Vec<_> = items.iter().map(Item::body).collect();
        match line.post(&path, &json!({ "jobs": jobs })).await {
            Told::Ok(body) => self.learn_all(opened, &body),
            Told::Refused(code) => {
                opened.into_iter().for_each(|open| open.fail(&code));
                true
            }
            Told::Unknown(why) => {
                opened.into_iter().for_each(|open| open.unknown(&why));
                false
            }
        }
    }

    fn learn_all(&self, opened: Vec<Open>, body: &Bytes) -> bool {
        let answer: BatchAnswer = serde_json::from_slice(body).unwrap();
        assert_eq!(answer.results.len(), opened.len(), "one answer per item");
        let mut known = true;
        for (open, result) in opened.into_iter().zip(answer.results) {
            match result {
                ItemAnswer::Published(published) => self.learn(open, &published),
                ItemAnswer::Problem(problem) if problem.status < 500 => open.fail(&problem.code),
                ItemAnswer::Problem(problem) => {
                    open.unknown(&problem.code);
                    known = false;
                }
            }
        }
        known
    }

    fn learn(&self, open: Open, published: &Published) {
        let id: JobId = published.id.parse().unwrap();
        self.desk.lock().unwrap().known.push(id);
        open.ok(Answer::Published {
            id,
            created_at: time(&published.created_at),
            deduplicated: published.deduplicated,
            matches: published.payload_matches,
        });
    }

    async fn cancel(&self, line: &mut Line, id: JobId) -> bool {
        let open = self.world.journal.open(&Call::Cancel { id });
        match line.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await {
            Told::Ok(_) => open.ok(Answer::Cancelled),
            Told::Refused(code) => open.fail(&code),
            Told::Unknown(why) => open.unknown(&why),
        }
        true
    }
}

impl Desk {
    fn invent(&mut self, publisher: u64) -> Order {
        if !self.known.is_empty() && self.dice.chance(5) {
            return Order::Cancel(self.known[self.dice.index(self.known.len())]);
        }
        let lane = Lane::ALL[self.dice.index(Lane::ALL.len())];
        let count = if self.dice.chance(25) { self.dice.within(2..=6) } else { 1 };
        Order::Publish(lane, (0..count).map(|_| self.item(publisher)).collect())
    }

    /// Mostly a key with the payload that belongs to it; now and then another payload, or no key.
    fn item(&mut self, publisher: u64) -> Item {
        self.count += 1;
        let delay = if self.dice.chance(20) { self.dice.within(1..=3) } else { 0 };
        if self.dice.chance(8) {
            let payload = json!({ "bare": self.count, "by": publisher });
            return Item { key: None, payload, delay };
        }
        let key = self.dice.below(KEYS);
        let payload = if self.dice.chance(4) {
            json!({ "key": key, "collides": self.count, "by": publisher })
        } else {
            json!({ "key": key })
        };
        Item { key: Some(format!("k{key}")), payload, delay }
    }
}

impl Order {
    /// Whether doing it twice is doing it once. Without a key it is not.
    fn is_repeatable(&self) -> bool {
        matches!(self, Self::Publish(_, items) if items.iter().all(|item| item.key.is_some()))
    }
}

impl Item {
    fn body(&self) -> Value {
        let mut body = json!({ "payload": self.payload, "delay": self.delay });
        if let Some(key) = &self.key {
            body["idempotencyKey"] = json!(key);
        }
        body
    }

    fn call(&self, lane: Lane) -> Call {
        Call::Publish {
            queue: lane.queue(),
            key: self.key.as_deref().map(|key| Key::try_from(key).unwrap()),
            digest: digest(&Payload::from_parsed(self.payload.to_string())),
            delay: Millis::from_secs(self.delay),
        }
    }
}
