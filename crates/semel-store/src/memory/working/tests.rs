//! A working set holds a part of the store and answers as the whole would.

use std::collections::VecDeque;

use semel_core::ids::Token;
use semel_core::lease::Lease;
use semel_core::outcome::Outcome;
use semel_core::payload::Payload;
use semel_core::publish::{self, Draft};
use semel_core::queue::QueueConfig;
use semel_core::settle::{Report, Settle};

use super::*;
use crate::command::Reply;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const QUEUE: QueueId = QueueId(7);

fn name() -> QueueName {
    QueueName::try_from("orders").unwrap()
}

fn key() -> Key {
    Key::try_from("order-9482").unwrap()
}

fn group() -> Group {
    Group::try_from("customer-4").unwrap()
}

fn id(raw: u64) -> JobId {
    JobId::from_raw(raw).unwrap()
}

fn draft() -> Draft {
    Draft::new(name(), Payload::from_json("1".to_owned()).unwrap())
}

/// A set with a queue in it.
fn set(config: QueueConfig) -> WorkingSet {
    let mut set = WorkingSet::new();
    let rules = Arc::new(Rules::new(config).unwrap());
    let stored =
        StoredQueue { id: QUEUE, rules, gate: Gate::default(), secrets: Vec::new(), created_at: NOW };
    set.load_queue(name(), stored);
    set
}

fn in_order() -> QueueConfig {
    QueueConfig { group_concurrency: Some(1), ..QueueConfig::default() }
}

/// An unfinished job as it would be loaded.
fn stored(raw: u64, draft: Draft, config: QueueConfig) -> Stored {
    let spec = draft.check().unwrap().into_spec(&Rules::new(config).unwrap(), NOW);
    let job = publish::create(id(raw), spec);
    Stored { job, queue: QUEUE, lease: None, open: true, suppressed: VecDeque::new() }
}

fn leased(stored: Stored, token: Token) -> Stored {
    let deadline = NOW.plus(semel_core::time::Millis::from_secs(30));
    Stored { lease: Some(Lease { token, since: NOW, deadline, received: false }), ..stored }
}

fn apply(set: &mut WorkingSet, command: Command) -> Answer {
    let mut ids = IdGenerator::new(0);
    set.apply([command], &mut ids, NOW).remove(0)
}

#[test]
fn a_new_job_is_told_with_its_key_and_its_count() {
    let mut set = set(QueueConfig::default());
    set.load_key(QUEUE, key(), BTreeSet::new());
    let mut ids = IdGenerator::new(0);
    let command = Command::Publish(draft().with_key(key()).check().unwrap());
    let answers = set.apply([command.clone(), command], &mut ids, NOW);
    let made = match answers.as_slice() {
        [Ok(Reply::Published(first)), Ok(Reply::Published(second))] if second.deduplicated => first.id,
        other => panic!("{other:?}"),
    };
    assert!(ids.next(NOW) > made, "the generator goes on where the set stopped");
    let changes = set.changes();
    assert!(
        matches!(changes.jobs.as_slice(), [JobChange { before: None, after: Some(new) }] if new.job.id == made)
    );
    assert_eq!(changes.keys.len(), 1);
    assert!(changes.keys[0].before.is_empty());
    assert_eq!(changes.keys[0].after, BTreeSet::from([made]));
    assert_eq!(changes.tallies(), BTreeMap::from([(QUEUE, Tally { unfinished: 1, ..Tally::default() })]));
    assert!(changes.queues.is_empty());
}

#[test]
fn what_was_only_looked_at_has_not_changed() {
    let mut set = set(QueueConfig::default());
    let job = stored(5, draft().with_key(key()), QueueConfig::default());
    set.load_job(job.clone());
    set.load_key(QUEUE, key(), BTreeSet::from([job.job.id]));
    assert!(apply(&mut set, Command::Replay(job.job.id)).is_err());
    let changes = set.changes();
    assert!(changes.jobs.is_empty() && changes.keys.is_empty() && changes.queues.is_empty());
}

#[test]
fn the_end_of_a_job_opens_the_first_who_waits_of_those_that_are_loaded() {
    let mut set = set(in_order());
    let grouped = || Draft { group: Some(group()), ..draft() };
    let token = Token::first(3);
    set.load_job(leased(stored(1, grouped(), in_order()), token));
    set.load_job(Stored { open: false, ..stored(2, grouped(), in_order()) });
    set.load_line(&name(), group(), 1);
    let ack =
        Settle::new(id(1), Some(token), Outcome::Done { result: None, effect: None }, Report::default());
    apply(&mut set, Command::Settle(ack.unwrap())).unwrap();
    let changes = set.changes();
    let opened: Vec<_> =
        changes.jobs.iter().filter_map(|job| job.after.as_ref()).map(|job| (job.job.id, job.open)).collect();
    assert_eq!(opened, [(id(1), true), (id(2), true)]);
    let tally = Tally { unfinished: -1, completed: 1, ..Tally::default() };
    assert_eq!(changes.tallies(), BTreeMap::from([(QUEUE, tally)]));
}

#[test]
fn a_line_is_as_full_as_it_was_said_to_be() {
    let mut set = set(in_order());
    set.load_line(&name(), group(), 1);
    let command = Command::Publish(Draft { group: Some(group()), ..draft() }.check().unwrap());
    apply(&mut set, command).unwrap();
    let changes = set.changes();
    let open: Vec<_> = changes.jobs.iter().filter_map(|job| job.after.as_ref()).map(|job| job.open).collect();
    assert_eq!(open, [false], "somebody who is not loaded is open already");
}

#[test]
fn a_gate_that_moved_is_told_and_so_is_a_job_that_went() {
    let mut set = set(QueueConfig::default());
    set.load_job(stored(5, draft(), QueueConfig::default()));
    for command in [
        Command::Pause { queue: name(), paused: true },
        Command::Bury { id: id(5), reason: "wrong".into() },
        Command::Purge(id(5)),
    ] {
        apply(&mut set, command).unwrap();
    }
    let changes = set.changes();
    assert!(matches!(changes.jobs.as_slice(), [JobChange { before: Some(_), after: None }]));
    let paused: Vec<_> =
        changes.queues.iter().map(|queue| queue.after.as_ref().map(|queue| queue.gate.paused)).collect();
    assert_eq!(paused, [Some(true)]);
}
