//! What the law leaves to the reference, as stories: a backend that is compared with it must tell them the same way.

use semel_core::hold::Hold;
use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::lease::{Delivery, LeaseRequest};
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::Draft;
use semel_core::queue::QueueConfig;
use semel_core::rate::{Bucket, RateLimit};
use semel_core::refusal::Refusal;
use semel_core::retention::Retention;
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};

use super::Tables;
use crate::command::{Command, Reply};
use crate::query::JobQuery;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const SECOND: Millis = Millis::from_secs(1);

/// Tables with a clock, and short words for what the stories do.
struct Story {
    tables: Tables,
    now: Timestamp,
}

fn queue() -> QueueName {
    QueueName::try_from("q").unwrap()
}

fn key() -> Key {
    Key::try_from("order-9482").unwrap()
}

fn done() -> Outcome {
    Outcome::Done { result: None, effect: None }
}

fn rejected() -> Outcome {
    Outcome::Rejected { error: "never".into() }
}

impl Story {
    fn new(config: QueueConfig) -> Self {
        let mut story = Self { tables: Tables::new(1), now: START };
        story.put(config);
        story
    }

    fn put(&mut self, config: QueueConfig) {
        self.ok(Command::PutQueue { name: queue(), config: Box::new(config) });
    }

    fn ok(&mut self, command: Command) -> Reply {
        self.tables.apply(command, self.now).unwrap()
    }

    fn refused(&mut self, command: Command) -> Refusal {
        self.tables.apply(command, self.now).unwrap_err()
    }

    fn publish(&mut self, change: impl FnOnce(&mut Draft)) -> JobId {
        let mut draft = Draft::new(queue(), Payload::from_json("{}").unwrap());
        change(&mut draft);
        match self.ok(Command::Publish(draft.check().unwrap())) {
            Reply::Published(published) => published.id,
            other => panic!("a publish was answered with {other:?}"),
        }
    }

    fn publish_to(&mut self, group: &str) -> JobId {
        let group = Group::try_from(group).unwrap();
        self.publish(|draft| draft.group = Some(group))
    }

    fn lease(&mut self) -> Vec<Delivery> {
        let request = LeaseRequest::new(queue(), 10, None).unwrap();
        self.tables.lease(&request, self.now)
    }

    fn lease_ids(&mut self) -> Vec<JobId> {
        self.lease().into_iter().map(|delivery| delivery.id).collect()
    }

    fn settle(&mut self, id: JobId, outcome: Outcome) -> Reply {
        self.ok(Command::Settle(Settle::new(id, None, outcome, Report::default()).unwrap()))
    }

    /// A job from its publish to its end.
    fn finish(&mut self, id: JobId, outcome: Outcome) {
        assert_eq!(self.lease_ids(), [id]);
        self.settle(id, outcome);
    }

    fn wait(&mut self, span: Millis) {
        self.now = self.now.plus(span);
    }

    fn state(&self, id: JobId) -> Option<State> {
        self.tables.job(id).map(|job| job.progress.state)
    }

    fn listed(&self, queue: Option<QueueName>) -> Vec<JobId> {
        let page = self.tables.page(&JobQuery { queue, ..JobQuery::default() });
        page.items.into_iter().map(|job| job.id).collect()
    }
}

fn strict() -> QueueConfig {
    QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() }
}

#[test]
fn a_replayed_job_joins_the_end_of_its_group() {
    let mut story = Story::new(strict());
    let [first, second, third] = [(); 3].map(|()| story.publish_to("g"));
    story.finish(first, rejected());
    story.wait(SECOND);
    story.ok(Command::Replay(first));
    let last = story.publish_to("g");
    for id in [second, third, first, last] {
        story.finish(id, done());
    }
}

#[test]
fn a_cancelled_job_that_waited_lets_nobody_overtake() {
    let mut story = Story::new(strict());
    let [first, second, third] = [(); 3].map(|()| story.publish_to("g"));
    story.ok(Command::Cancel(second));
    assert_eq!(story.lease_ids(), [first]);
    assert!(story.lease().is_empty());
    story.settle(first, done());
    assert_eq!(story.lease_ids(), [third]);
}

#[test]
fn a_new_group_limit_is_obeyed_at_once() {
    let mut story = Story::new(strict());
    let ids = [(); 4].map(|()| story.publish_to("g"));
    story.put(QueueConfig { group_concurrency: Some(2), ..QueueConfig::default() });
    assert_eq!(story.lease_ids(), ids[..2]);
    story.put(strict());
    story.settle(ids[0], done());
    assert!(story.lease().is_empty(), "a lowered limit closes nobody, and opens nobody");
    story.put(QueueConfig::default());
    assert_eq!(story.lease_ids(), ids[2..]);
}

#[test]
fn a_queue_made_again_is_another_one() {
    let mut story = Story::new(QueueConfig::default());
    let old = story.publish(|draft| draft.key = Some(key()));
    let refusal = story.refused(Command::DeleteQueue(queue()));
    assert_eq!(refusal, Refusal::QueueNotEmpty { queue: queue(), unfinished: 1 });
    story.finish(old, rejected());
    story.ok(Command::DeleteQueue(queue()));
    story.put(QueueConfig::default());
    assert_eq!(story.state(old), Some(State::Dead), "it can be read by its id");
    assert_eq!((story.listed(Some(queue())), story.listed(None)), (vec![], vec![old]));
    assert_eq!(story.tables.stats(story.now).queues[0].dead, 0);
    assert_eq!(story.refused(Command::Replay(old)), Refusal::QueueNotFound(queue()));
    let new = story.publish(|draft| draft.key = Some(key()));
    assert_ne!(old, new, "the key did not carry over");
    story.ok(Command::Prune { limit: 10 });
    assert_eq!((story.state(old), story.state(new)), (None, Some(State::Pending)));
}

#[test]
fn the_newest_job_that_is_kept_decides_about_a_key() {
    let short = Retention { completed: Millis::ZERO, dead: Millis::from_hours(1), archive: false };
    let mut story = Story::new(QueueConfig { window: SECOND, retention: short, ..QueueConfig::default() });
    let old = story.publish(|draft| draft.key = Some(key()));
    story.finish(old, rejected());
    story.wait(SECOND);
    let new = story.publish(|draft| draft.key = Some(key()));
    story.finish(new, done());
    story.wait(SECOND);
    story.ok(Command::Prune { limit: 10 });
    assert_eq!(story.state(new), None);
    let record = story.tables.key_record(&queue(), &key(), story.now).unwrap();
    assert_eq!((record.job.id, record.holds), (old, false));
}

#[test]
fn pruning_remembers_its_place_until_it_is_through() {
    let mut story = Story::new(QueueConfig::default());
    for _ in 0..3 {
        let id = story.publish(|_| {});
        story.finish(id, done());
    }
    story.publish(|_| {});
    let mut more = || match story.ok(Command::Prune { limit: 2 }) {
        Reply::Pruned { dropped: 0, stripped: 0, more } => more,
        other => panic!("nothing is old enough: {other:?}"),
    };
    assert_eq!([more(), more(), more(), more()], [true, false, true, false]);
}

#[test]
fn a_crash_takes_leases_probes_and_what_was_used_of_a_rate() {
    let rate = Some(RateLimit { count: 1, per: Millis::from_hours(1), burst: 1 });
    let mut story = Story::new(QueueConfig { rate, ..QueueConfig::default() });
    let id = story.publish(|_| {});
    let before = story.lease();
    story.tables.crash();
    assert_eq!((story.state(id), story.tables.next_expiry()), (Some(State::Pending), None));
    let after = story.lease();
    assert_eq!((after[0].attempt, after[0].id), (1, id));
    assert!(after[0].token > before[0].token);
    let wait = Outcome::Backpressure { retry_after: Some(SECOND), scope: None, reason: None };
    story.settle(id, wait);
    story.wait(Millis::from_hours(2));
    assert!(story.lease()[0].probe);
    story.tables.crash();
    let gate = story.tables.queue_record(&queue()).unwrap().gate;
    assert!(matches!(gate.hold, Hold::Until(time) if time <= story.now), "another probe may go at once");
    assert_eq!((gate.probe, gate.bucket), (None, Bucket::default()));
    assert!(story.lease()[0].probe);
}

#[test]
fn saying_received_again_changes_nothing() {
    let mut story = Story::new(QueueConfig::default());
    let id = story.publish(|_| {});
    story.lease();
    let once = story.settle(id, Outcome::Received);
    let answer = |repeated| Reply::Settled {
        queue: queue(),
        state: State::AwaitingAck,
        due: None,
        took: None,
        repeated,
    };
    assert_eq!(once, answer(false));
    let expiry = story.tables.next_expiry();
    story.wait(SECOND);
    let again = story.settle(id, Outcome::Received);
    assert_eq!(again, answer(true));
    assert_eq!(story.tables.next_expiry(), expiry);
}

#[test]
fn an_id_never_comes_back() {
    let gone = Retention { completed: Millis::ZERO, dead: Millis::ZERO, archive: false };
    let mut story = Story::new(QueueConfig { retention: gone, ..QueueConfig::default() });
    let first = story.publish(|_| {});
    story.finish(first, done());
    story.ok(Command::Prune { limit: 1 });
    assert_eq!(story.state(first), None);
    story.tables.crash();
    assert!(story.publish(|_| {}) > first);
}
