//! What is published: everything about job number `n` follows from `n`, so that nobody has to remember it.

use semel_core::job::Overrides;
use semel_core::key::{Fingerprint, Key};
use semel_core::name::{Group, QueueName};
use semel_core::outcome::DeferScope;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Publish};
use semel_core::queue::{OnCollision, QueueConfig};
use semel_core::retention::Retention;
use semel_core::retry::{RetryPolicy, Strategy};
use semel_core::time::Millis;
use semel_store::Command;

use crate::dice::{Dice, mixed};
use crate::history::{Call, Digest, Promise};

/// Attempts a job may use. Few, so that dead letters are common.
const CAP: u32 = 4;
/// How many groups share the queue with strict order.
const GROUPS: u64 = 24;

/// One of the queues that are worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Nothing special; everything is kept.
    Plain,
    /// Strict order within groups, and collisions are refused; everything is kept.
    Strict,
    /// Short windows and retention, so that keys expire and jobs are stripped and dropped.
    Churn,
    /// A worker's wish for time holds the whole queue, and few jobs may be out at once; everything is kept.
    Held,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Strict, Self::Churn, Self::Held];

    /// The lane of job `n`.
    pub fn of(n: u64) -> Self {
        match mixed(n ^ 0x1a9e) % 100 {
            0..=39 => Self::Plain,
            40..=54 => Self::Strict,
            55..=91 => Self::Churn,
            _ => Self::Held,
        }
    }

    /// The name of its queue.
    pub fn queue(self) -> QueueName {
        let name = match self {
            Self::Plain => "plain",
            Self::Strict => "strict",
            Self::Churn => "churn",
            Self::Held => "held",
        };
        QueueName::try_from(name).expect("the names above are valid")
    }

    /// How its queue behaves.
    pub fn config(self) -> QueueConfig {
        let long = Millis::from_days(30);
        let base = QueueConfig {
            retry: RetryPolicy {
                strategy: Strategy::Fixed,
                base: Millis::from_millis(800),
                ..RetryPolicy::default()
            },
            max_attempts: CAP,
            window: long,
            retention: Retention { completed: long, dead: long, archive: false },
            defer_scope: DeferScope::Job,
            ..QueueConfig::default()
        };
        match self {
            Self::Plain => base,
            Self::Strict => {
                QueueConfig { group_concurrency: Some(1), on_collision: OnCollision::Reject, ..base }
            }
            Self::Churn => {
                let short = Millis::from_secs(1);
                let window = Millis::from_secs(2);
                QueueConfig {
                    window,
                    retention: Retention { completed: short, dead: short, archive: false },
                    ..base
                }
            }
            Self::Held => QueueConfig { defer_scope: DeferScope::Queue, concurrency: Some(64), ..base },
        }
    }

    /// What its jobs are promised.
    pub fn promise(self) -> Promise {
        let config = self.config();
        let keep = config.retention.completed.min(config.retention.dead);
        Promise { queue: self.queue(), cap: config.max_attempts, window: config.window, keep }
    }

    /// The command that makes its queue.
    pub fn put(self) -> Command {
        Command::PutQueue { name: self.queue(), config: Box::new(self.config()) }
    }
}

/// A publish in the making: job number `n`, as it is or with one thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Under its key.
    Keyed(u64),
    /// Under its key, with another payload.
    Collision(u64),
    /// Under its key, in the queue of somebody else: a key is only unique within its queue.
    Elsewhere(u64),
    /// Without a key.
    Bare(u64),
}

impl Item {
    /// The number.
    pub fn number(self) -> u64 {
        match self {
            Self::Keyed(n) | Self::Collision(n) | Self::Elsewhere(n) | Self::Bare(n) => n,
        }
    }

    /// The lane it goes to.
    pub fn lane(self) -> Lane {
        match self {
            Self::Elsewhere(n) if Lane::of(n) == Lane::Plain => Lane::Churn,
            Self::Elsewhere(_) => Lane::Plain,
            _ => Lane::of(self.number()),
        }
    }

    /// The key.
    pub fn key(self) -> Option<Key> {
        match self {
            Self::Bare(_) => None,
            _ => Some(Key::try_from(format!("k{}", self.number())).expect("a short text is a key")),
        }
    }

    /// How long it is to wait.
    pub fn delay(self) -> Millis {
        let dice = &mut Dice::new(mixed(self.number() ^ 0xde1a));
        if dice.chance(10) { Millis::from_millis(dice.within(1..=4000)) } else { Millis::ZERO }
    }

    /// The payload: mostly a few hundred bytes, now and then more than a page of any engine.
    pub fn payload(self) -> Payload {
        let dice = &mut Dice::new(mixed(self.number() ^ 0x10ad));
        let size = if dice.chance(2) { dice.within(5000..=40_000) } else { dice.within(10..=400) };
        let filler = "abcdefghijklmnop".repeat(usize::try_from(size / 16).unwrap_or_default() + 1);
        let kind = match self {
            Self::Keyed(_) => "keyed",
            Self::Collision(_) => "collision",
            Self::Elsewhere(_) => "elsewhere",
            Self::Bare(_) => "bare",
        };
        let n = self.number();
        Payload::from_parsed(format!("{{\"n\":{n},\"kind\":\"{kind}\",\"filler\":\"{filler}\"}}"))
    }

    /// The checked publish.
    pub fn publish(self) -> Publish {
        let dice = &mut Dice::new(mixed(self.number() ^ 0x9a57));
        let lane = self.lane();
        let group = (lane == Lane::Strict || dice.chance(5)).then(|| format!("g{}", dice.below(GROUPS)));
        let priority = if dice.chance(10) { i64::try_from(dice.below(7)).unwrap_or_default() - 3 } else { 0 };
        let metadata =
            if dice.chance(10) { vec![("tenant".into(), format!("t{}", dice.below(9)))] } else { vec![] };
        let delay = Some(self.delay()).filter(|delay| *delay != Millis::ZERO);
        let draft = Draft {
            key: self.key(),
            delay,
            priority,
            group: group.map(|group| Group::try_from(group).expect("a short text is a group")),
            overrides: Overrides::default(),
            metadata,
            publisher: Some("proof".into()),
            ..Draft::new(lane.queue(), self.payload())
        };
        draft.check().expect("what the plan makes is valid")
    }

    /// The publish as a history tells it.
    pub fn call(self) -> Call {
        let (queue, key, delay) = (self.lane().queue(), self.key(), self.delay());
        Call::Publish { queue, key, digest: digest(&self.payload()), delay }
    }
}

/// The digest of a payload.
pub fn digest(payload: &Payload) -> Digest {
    let mask = u128::from(u64::MAX);
    u64::try_from(Fingerprint::of(payload).0 & mask).expect("masked to 64 bits")
}
