//! Flaws that take a command for another one: what a backend does that reads a rule wrong.

use async_trait::async_trait;
use semel_core::QueueConfig;
use semel_core::ids::Token;
use semel_core::outcome::{DeferScope, Outcome};
use semel_core::publish::Draft;
use semel_core::settle::Settle;
use semel_core::time::Millis;
use semel_store::store::BATCH_MAX;
use semel_store::{Answer, Command, MemoryStore, Reply, Store, StoreError};

use super::{Asked, Flaw};

fn republish(command: Command, change: impl FnOnce(&mut Draft)) -> Command {
    let Command::Publish(publish) = command else { return command };
    let mut draft = publish.draft().clone();
    change(&mut draft);
    Command::Publish(draft.check().expect("a draft that passed passes again"))
}

fn reconfigure(command: Command, change: impl FnOnce(&mut QueueConfig)) -> Command {
    let Command::PutQueue { name, mut config } = command else { return command };
    change(&mut config);
    Command::PutQueue { name, config }
}

fn resettle(command: Command, change: impl FnOnce(&mut Option<Token>, &mut Outcome)) -> Command {
    let Command::Settle(settle) = command else { return command };
    let (mut token, mut outcome) = (settle.token(), settle.outcome().clone());
    change(&mut token, &mut outcome);
    let settle = Settle::new(settle.id(), token, outcome, settle.report().clone());
    Command::Settle(settle.expect("a settle that passed passes again"))
}

/// Makes backpressure on one job of an outcome.
fn defer_alone(outcome: &mut Outcome, retry_after: Option<Millis>) {
    *outcome = Outcome::Backpressure { retry_after, scope: Some(DeferScope::Job), reason: None };
}

fn has(asked: &Asked, wanted: fn(&Command) -> bool) -> bool {
    matches!(asked, Asked::Apply(batch) if batch.iter().any(wanted))
}

const MOMENT: Millis = Millis::from_millis(1);

/// A key is not looked up.
#[derive(Default)]
pub(crate) struct NoDedup;

impl Flaw for NoDedup {
    fn command(&self, command: Command) -> Command {
        republish(command, |draft| draft.key = None)
    }
}

/// A key is looked up before the batch, so a duplicate in the same batch is not found.
#[derive(Default)]
pub(crate) struct NoDedupWithinABatch;

#[async_trait]
impl Flaw for NoDedupWithinABatch {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut seen = Vec::new();
        let mut forget_seen = |draft: &mut Draft| match draft.key.clone() {
            Some(key) if seen.contains(&key) => draft.key = None,
            key => seen.extend(key),
        };
        let batch = batch.into_iter().map(|command| republish(command, &mut forget_seen)).collect();
        store.apply(batch).await
    }
}

/// Keys hold a millisecond too long.
#[derive(Default)]
pub(crate) struct LateExpiry;

impl Flaw for LateExpiry {
    fn command(&self, command: Command) -> Command {
        reconfigure(command, |config| config.window = config.window.plus(MOMENT))
    }
}

/// Keys hold a millisecond too short.
#[derive(Default)]
pub(crate) struct EarlyExpiry;

impl Flaw for EarlyExpiry {
    fn command(&self, command: Command) -> Command {
        reconfigure(command, |config| config.window = config.window.minus(MOMENT))
    }
}

/// Payloads are not compared.
#[derive(Default)]
pub(crate) struct NoCollisions;

impl Flaw for NoCollisions {
    fn command(&self, command: Command) -> Command {
        reconfigure(command, |config| config.on_collision = semel_core::queue::OnCollision::Flag)
    }
}

/// A settle applies to the current delivery, whoever sends it.
#[derive(Default)]
pub(crate) struct NoFencing;

impl Flaw for NoFencing {
    fn command(&self, command: Command) -> Command {
        resettle(command, |token, _| *token = None)
    }
}

/// A deferral is a failed attempt.
#[derive(Default)]
pub(crate) struct DeferBurnsAnAttempt;

impl Flaw for DeferBurnsAnAttempt {
    fn command(&self, command: Command) -> Command {
        resettle(command, |_, outcome| {
            if matches!(outcome, Outcome::Backpressure { .. }) {
                *outcome = Outcome::Failed { error: "deferred".into() };
            }
        })
    }
}

/// A failed attempt is not counted.
#[derive(Default)]
pub(crate) struct FailuresAreFree;

impl Flaw for FailuresAreFree {
    fn command(&self, command: Command) -> Command {
        resettle(command, |_, outcome| {
            if matches!(outcome, Outcome::Failed { .. }) {
                defer_alone(outcome, Some(Millis::from_secs(10)));
            }
        })
    }
}

/// Backpressure never holds the queue.
#[derive(Default)]
pub(crate) struct NoHold;

impl Flaw for NoHold {
    fn command(&self, command: Command) -> Command {
        resettle(command, |_, outcome| {
            if let Outcome::Backpressure { retry_after, .. } = *outcome {
                defer_alone(outcome, retry_after);
            }
        })
    }
}

/// Delayed jobs go out a millisecond early.
#[derive(Default)]
pub(crate) struct EarlyDelivery;

impl Flaw for EarlyDelivery {
    fn ahead(&self, asked: &Asked) -> Millis {
        if matches!(asked, Asked::Lease(_)) { MOMENT } else { Millis::ZERO }
    }
}

/// Leases are taken away a millisecond early.
#[derive(Default)]
pub(crate) struct EarlyRescue;

impl Flaw for EarlyRescue {
    fn ahead(&self, asked: &Asked) -> Millis {
        if has(asked, |c| matches!(c, Command::Rescue { .. })) { MOMENT } else { Millis::ZERO }
    }
}

/// Jobs are dropped a millisecond early.
#[derive(Default)]
pub(crate) struct EarlyPrune;

impl Flaw for EarlyPrune {
    fn ahead(&self, asked: &Asked) -> Millis {
        if has(asked, |c| matches!(c, Command::Prune { .. })) { MOMENT } else { Millis::ZERO }
    }
}

/// Every job has the same priority.
#[derive(Default)]
pub(crate) struct NoPriority;

impl Flaw for NoPriority {
    fn command(&self, command: Command) -> Command {
        republish(command, |draft| draft.priority = 0)
    }
}

/// Groups do not gate.
#[derive(Default)]
pub(crate) struct NoGroups;

impl Flaw for NoGroups {
    fn command(&self, command: Command) -> Command {
        reconfigure(command, |config| config.group_concurrency = None)
    }
}

/// Rate, concurrency and breaker are ignored.
#[derive(Default)]
pub(crate) struct NoGate;

impl Flaw for NoGate {
    fn command(&self, command: Command) -> Command {
        reconfigure(command, |config| (config.rate, config.concurrency, config.breaker) = (None, None, None))
    }
}

/// A batch of any size is taken, in two parts.
#[derive(Default)]
pub(crate) struct NoBatchLimit;

#[async_trait]
impl Flaw for NoBatchLimit {
    async fn apply(&self, store: &MemoryStore, mut batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let rest = batch.split_off(batch.len().min(BATCH_MAX));
        let mut answers = store.apply(batch).await?;
        answers.extend(store.apply(rest).await?);
        Ok(answers)
    }
}

/// A refusal ends the batch.
#[derive(Default)]
pub(crate) struct RefusalEndsTheBatch;

#[async_trait]
impl Flaw for RefusalEndsTheBatch {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut answers: Vec<Answer> = Vec::new();
        for command in batch {
            let refused = answers.last().filter(|answer| answer.is_err()).cloned();
            answers.push(match refused {
                Some(refused) => refused,
                None => store.apply(vec![command]).await?.remove(0),
            });
        }
        Ok(answers)
    }
}

/// The commands of a batch are applied from the last to the first.
#[derive(Default)]
pub(crate) struct BatchBackwards;

#[async_trait]
impl Flaw for BatchBackwards {
    async fn apply(&self, store: &MemoryStore, mut batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        batch.reverse();
        let mut answers = store.apply(batch).await?;
        answers.reverse();
        Ok(answers)
    }
}

/// A replay is answered and not done.
#[derive(Default)]
pub(crate) struct NoReplay;

#[async_trait]
impl Flaw for NoReplay {
    async fn apply(&self, store: &MemoryStore, batch: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = Vec::new();
        for command in batch {
            answers.push(match command {
                Command::Replay(_) => Ok(Reply::Done),
                other => store.apply(vec![other]).await?.remove(0),
            });
        }
        Ok(answers)
    }
}
