//! Short ways to make the values a case needs: names, drafts, commands, outcomes.

use semel_core::ids::{JobId, Token};
use semel_core::job::Overrides;
use semel_core::key::Key;
use semel_core::lease::Extend;
use semel_core::lifecycle::State;
use semel_core::name::{Group, QueueName};
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Published};
use semel_core::queue::{Delivery, Pull, Push, PushMode, QueueConfig};
use semel_core::retry::{Jitter, RetryPolicy, Strategy};
use semel_core::settle::{Report, Settle};
use semel_core::time::{Millis, Timestamp};

use crate::command::{Answer, Command, Reply};

/// The wait after a failed attempt in a queue the kit makes.
pub(super) const RETRY_WAIT: Millis = Millis::from_secs(10);
/// The lease in a queue the kit makes.
pub(super) const LEASE: Millis = Millis::from_secs(30);

/// The settings of the kit's queues: fixed waits, so that a case can say when something happens.
pub(super) fn config() -> QueueConfig {
    let delivery = Delivery::Pull(Pull { lease: LEASE });
    QueueConfig { delivery, max_attempts: 3, retry: fixed(RETRY_WAIT), ..QueueConfig::default() }
}

/// A policy that always waits the same time.
pub(super) fn fixed(wait: Millis) -> RetryPolicy {
    RetryPolicy {
        strategy: Strategy::Fixed,
        base: wait,
        cap: wait,
        jitter: Jitter::None,
        ..RetryPolicy::default()
    }
}

/// A queue that pushes and is acked out of band, with this time for the ack.
pub(super) fn push_in_ack_mode(ack_timeout: Millis) -> Push {
    Push { url: "https://worker.example/jobs".into(), mode: PushMode::Ack, ack_timeout, ..Push::default() }
}

pub(super) fn queue_name(text: &str) -> QueueName {
    QueueName::try_from(text).expect("a queue name of the suite is valid")
}

pub(super) fn key(text: &str) -> Key {
    Key::try_from(text).expect("a key of the suite is valid")
}

pub(super) fn group(text: &str) -> Group {
    Group::try_from(text).expect("a group of the suite is valid")
}

pub(super) fn json(text: &str) -> Payload {
    Payload::from_json(text.to_owned()).expect("a payload of the suite is JSON")
}

/// A job without anything special.
pub(super) fn plain(queue: &QueueName) -> Draft {
    Draft::new(queue.clone(), json(r#"{"order":9482}"#))
}

/// A job with a key.
pub(super) fn keyed(queue: &QueueName, text: &str) -> Draft {
    plain(queue).with_key(key(text))
}

/// A job in a group.
pub(super) fn grouped(queue: &QueueName, text: &str) -> Draft {
    Draft { group: Some(group(text)), ..plain(queue) }
}

/// A job that may use this many attempts.
pub(super) fn with_attempts(draft: Draft, max: u32) -> Draft {
    Draft { overrides: Overrides { max_attempts: Some(max), ..draft.overrides }, ..draft }
}

/// The command for a publish that passes its own checks.
pub(super) fn publish(draft: Draft) -> Command {
    Command::Publish(draft.check().expect("a publish of the suite is valid"))
}

/// The answer to a publish that was taken.
pub(super) fn published(answer: &Answer) -> Published {
    match answer {
        Ok(Reply::Published(published)) => published.clone(),
        other => panic!("a publish must be taken, but was answered {other:?}"),
    }
}

/// The command for a settle that passes its own checks.
pub(super) fn settle(id: JobId, token: Option<Token>, outcome: Outcome) -> Command {
    let settle = Settle::new(id, token, outcome, Report::default());
    Command::Settle(settle.expect("a settle of the suite is valid"))
}

/// The answer to a settle that ended a delivery of this queue for good, after `took`.
pub(super) fn settled(queue: &QueueName, state: State, took: Millis) -> Reply {
    Reply::Settled { queue: queue.clone(), state, due: None, took: Some(took), repeated: false }
}

/// The answer to a settle that had taken effect before.
pub(super) fn repeated(queue: &QueueName, state: State, due: Option<Timestamp>) -> Reply {
    Reply::Settled { queue: queue.clone(), state, due, took: None, repeated: true }
}

/// The command that lets a lease end `span` from now.
pub(super) fn extend(id: JobId, token: Option<Token>, span: Millis) -> Command {
    Command::Extend(Extend::new(id, token, span).expect("an extension of the suite is valid"))
}

pub(super) fn done() -> Outcome {
    Outcome::Done { result: None, effect: None }
}

pub(super) fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into() }
}

pub(super) fn rejected(error: &str) -> Outcome {
    Outcome::Rejected { error: error.into() }
}

/// Backpressure for one job, or for the whole queue.
pub(super) fn deferred(wait: Millis, scope: DeferScope) -> Outcome {
    Outcome::Backpressure { retry_after: Some(wait), scope: Some(scope), reason: None }
}

/// A span in milliseconds, for the edges of a time.
pub(super) const fn ms(millis: u64) -> Millis {
    Millis::from_millis(millis)
}

pub(super) const fn secs(secs: u64) -> Millis {
    Millis::from_secs(secs)
}
