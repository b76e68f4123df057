//! One worker: a loop of random steps, each of them one call of the store.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use semel_core::ids::{JobId, Token};
use semel_core::lease::{Delivery, Extend, LeaseRequest};
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::settle::{Report, Settle};
use semel_core::time::Millis;
use semel_store::{Command, Reply, StoreError};

use super::plan::{Item, Lane, digest};
use super::{Ended, Options, Shared};
use crate::dice::{Dice, mixed};
use crate::history::{Answer, Call, Delivered, Entry, Op, Say};

/// How many deliveries a worker holds before it settles instead of leasing: keeps the backlog of leases short.
const HANDS_FULL: usize = 150;
/// How many finished deliveries and published jobs a worker remembers, to repeat settles and cancel jobs.
const MEMORY: usize = 256;
/// How often a store that has failed is asked again, to see that it goes on refusing.
const ASK_AGAIN: u32 = 5;

/// A delivery a worker has or had.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: JobId,
    token: Token,
    say: Say,
}

/// A worker and what it remembers.
pub struct Worker {
    shared: Arc<Shared>,
    dice: Dice,
    steps: Option<u64>,
    hands: Vec<(JobId, Token)>,
    settled: VecDeque<Held>,
    published: VecDeque<JobId>,
}

impl Worker {
    /// Worker `number` of a workload.
    pub fn new(shared: Arc<Shared>, options: Options, number: u64) -> Self {
        let dice = Dice::new(mixed(options.seed ^ (number << 32)));
        let (hands, settled, published) = Default::default();
        Self { shared, dice, steps: options.steps, hands, settled, published }
    }

    /// Works until told to stop, the steps are done, or the store takes no more writes.
    pub async fn run(mut self) -> Result<(), Ended> {
        let mut refused = 0;
        while !self.shared.stop.load(Ordering::Relaxed) && self.steps != Some(0) {
            self.steps = self.steps.map(|left| left - 1);
            match self.step().await? {
                Err(error) if error.retryable() => {}
                Err(error) if refused >= ASK_AGAIN => return Err(error.into()),
                Err(_) => refused += 1,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// One call. The outer error is the history's, the inner one the store's.
    pub async fn step(&mut self) -> io::Result<Result<(), StoreError>> {
        if self.hands.len() < HANDS_FULL && self.dice.chance(45) {
            self.lease().await
        } else {
            self.apply().await
        }
    }

    async fn lease(&mut self) -> io::Result<Result<(), StoreError>> {
        let queue = Lane::ALL[self.dice.index(Lane::ALL.len())].queue();
        let max = u32::try_from(self.dice.within(1..=64)).unwrap_or(1);
        let duration = Millis::from_millis(self.dice.within(1000..=6000));
        let request =
            LeaseRequest::new(queue.clone(), max, Some(duration)).expect("within the limits of a lease");
        let call = Call::Lease { queue, duration };
        let op = self.shared.recorder.invoke(self.shared.store.now(), [&call].into_iter())?;
        let result = self.shared.store.lease(request).await;
        let leased = result.as_ref().map(|all| Answer::Leased(all.iter().map(delivered).collect()));
        self.shared.recorder.write([self.entry(op, leased.map_err(Clone::clone))])?;
        Ok(result.map(|all| self.hands.extend(all.iter().map(|d| (d.id, d.token)))))
    }

    async fn apply(&mut self) -> io::Result<Result<(), StoreError>> {
        let batch = self.batch();
        let first =
            self.shared.recorder.invoke(self.shared.store.now(), batch.iter().map(|(call, _)| call))?;
        let (calls, commands): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let result = self.shared.store.apply(commands).await;
        let entries: Vec<_> = match &result {
            Ok(answers) => (first..).zip(answers).map(|(op, answer)| self.item_entry(op, answer)).collect(),
            Err(error) => (first..).take(calls.len()).map(|op| self.entry(op, Err(error.clone()))).collect(),
        };
        self.shared.recorder.write(entries)?;
        Ok(result
            .map(|answers| calls.iter().zip(&answers).for_each(|(call, answer)| self.learn(call, answer))))
    }

    /// A batch of everything: some publishes, the settles of most of what is held, and now and then something rare.
    fn batch(&mut self) -> Vec<(Call, Command)> {
        let mut batch = Vec::new();
        for _ in 0..self.dice.within(0..=40) {
            let item = self.item();
            batch.push((item.call(), Command::Publish(item.publish())));
        }
        batch.extend(self.stale());
        for (id, token) in std::mem::take(&mut self.hands) {
            batch.extend(self.settle(id, token));
        }
        if self.dice.chance(30) {
            batch.extend(self.repeat());
        }
        if self.dice.chance(20) {
            batch.extend(self.cancel());
        }
        if self.dice.chance(20) {
            batch.push((Call::Rescue, Command::Rescue { limit: 100 }));
        }
        if self.dice.chance(20) || batch.is_empty() {
            batch.push((Call::Prune, Command::Prune { limit: 200 }));
        }
        batch
    }

    /// What to publish: mostly something new, now and then something that was published before.
    fn item(&mut self) -> Item {
        let next = &self.shared.next;
        let kind = self.dice.below(100);
        if (20..80).contains(&kind) {
            return Item::Keyed(next.fetch_add(1, Ordering::Relaxed));
        }
        let known = next.load(Ordering::Relaxed).max(1);
        // Half of the repeats are of something recent: most likely to be still unfinished, or in the same batch.
        let recent = known.saturating_sub(1 + self.dice.below(200));
        let old = if self.dice.chance(50) { recent } else { self.dice.below(known) };
        match kind {
            0..=13 => Item::Keyed(old),
            14..=17 => Item::Collision(old),
            18..=19 => Item::Elsewhere(old),
            _ => Item::Bare(next.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// What becomes of a delivery; `None` leaves it to expire.
    fn settle(&mut self, id: JobId, token: Token) -> Option<(Call, Command)> {
        let say = match self.dice.below(100) {
            0..=71 => Say::Ack,
            72..=82 => Say::Nack,
            83..=84 => Say::Reject,
            85..=91 => Say::Defer,
            92..=94 => Say::Receive,
            95..=97 => {
                self.hands.push((id, token));
                return Some(self.extend(id, token));
            }
            _ => {
                remember(&mut self.settled, Held { id, token, say: Say::Ack });
                return None;
            }
        };
        Some(self.settle_as(Held { id, token, say }))
    }

    fn settle_as(&mut self, Held { id, token, say }: Held) -> (Call, Command) {
        let outcome = match say {
            Say::Ack => Outcome::Done { result: self.result(), effect: None },
            Say::Nack => Outcome::Failed { error: "the proof says no".into() },
            Say::Reject => Outcome::Rejected { error: "the proof says never".into() },
            Say::Defer => Outcome::Backpressure {
                retry_after: Some(Millis::from_millis(self.dice.within(1..=500))),
                scope: None,
                reason: None,
            },
            Say::Receive => Outcome::Received,
        };
        let report = Report { from_worker: true, ..Report::default() };
        let settle = Settle::new(id, Some(token), outcome, report).expect("what a worker says is valid");
        (Call::Settle { id, token, say }, Command::Settle(settle))
    }

    fn result(&mut self) -> Option<Payload> {
        self.dice.chance(10).then(|| Payload::from_parsed(format!("{{\"rolled\":{}}}", self.dice.roll())))
    }

    fn extend(&mut self, id: JobId, token: Token) -> (Call, Command) {
        let duration = Millis::from_millis(self.dice.within(1000..=6000));
        let extend = Extend::new(id, Some(token), duration).expect("within the limits of a lease");
        (Call::Extend { id, token }, Command::Extend(extend))
    }

    /// The late word of an earlier delivery, while this worker holds a newer one of the same job: it must not count.
    fn stale(&mut self) -> Option<(Call, Command)> {
        let newer = |old: &Held| self.hands.iter().any(|(id, token)| *id == old.id && *token > old.token);
        let late = *self.settled.iter().rev().find(|old| newer(old))?;
        Some(self.settle_as(Held { say: Say::Ack, ..late }))
    }

    /// A settle that was sent before: the same again, or something else under the same token.
    fn repeat(&mut self) -> Option<(Call, Command)> {
        let at = self.dice.index(self.settled.len().max(1));
        let held = *self.settled.get(at)?;
        let say = if self.dice.chance(50) { held.say } else { Say::Ack };
        Some(self.settle_as(Held { say, ..held }))
    }

    fn cancel(&mut self) -> Option<(Call, Command)> {
        let at = self.dice.index(self.published.len().max(1));
        let id = *self.published.get(at)?;
        Some((Call::Cancel { id }, Command::Cancel(id)))
    }

    /// Remembers what an answer taught.
    fn learn(&mut self, call: &Call, answer: &semel_store::Answer) {
        match (call, answer) {
            (Call::Settle { id, token, say: Say::Receive }, Ok(_)) => self.hands.push((*id, *token)),
            (Call::Settle { id, token, say }, _) => {
                remember(&mut self.settled, Held { id: *id, token: *token, say: *say });
            }
            (Call::Publish { .. }, Ok(Reply::Published(published))) => {
                remember(&mut self.published, published.id);
            }
            _ => {}
        }
    }

    fn item_entry(&self, op: Op, answer: &semel_store::Answer) -> Entry {
        let at = self.shared.store.now();
        match answer {
            Ok(reply) => Entry::Ok { op, at, answer: told(reply) },
            Err(refusal) => Entry::Fail { op, why: refusal.code().into() },
        }
    }

    fn entry(&self, op: Op, result: Result<Answer, StoreError>) -> Entry {
        match result {
            Ok(answer) => Entry::Ok { op, at: self.shared.store.now(), answer },
            Err(error) if error.is_unknown() => Entry::Unknown { op, why: error.to_string() },
            Err(error) => Entry::Fail { op, why: error.to_string() },
        }
    }
}

fn remember<T>(memory: &mut VecDeque<T>, item: T) {
    if memory.len() >= MEMORY {
        memory.pop_front();
    }
    memory.push_back(item);
}

/// A delivery as a history tells it.
pub fn delivered(delivery: &Delivery) -> Delivered {
    Delivered {
        id: delivery.id,
        token: delivery.token,
        attempt: delivery.attempt,
        max_attempts: delivery.max_attempts,
        deferrals: delivery.deferrals,
        deadline: delivery.deadline,
        // A delivery without its payload gets a digest that no payload of the plan has.
        digest: delivery.spec.payload.as_ref().map_or(0, digest),
        key: delivery.spec.key.clone(),
    }
}

/// A reply as a history tells it.
pub fn told(reply: &Reply) -> Answer {
    match reply {
        Reply::Published(p) => Answer::Published {
            id: p.id,
            created_at: p.created_at,
            deduplicated: p.deduplicated,
            matches: p.payload_matches,
        },
        Reply::Settled { state, due, repeated, .. } => {
            Answer::Settled { state: *state, due: *due, repeated: *repeated }
        }
        Reply::Extended(until) => Answer::Extended { until: *until },
        Reply::Rescued { jobs, .. } => Answer::Rescued(jobs.iter().map(|job| job.id).collect()),
        Reply::Pruned { dropped, stripped, .. } => Answer::Pruned { dropped: *dropped, stripped: *stripped },
        Reply::KeyReleased(_) | Reply::Done => Answer::Cancelled,
    }
}
