//! The jobs of a soak: everything about job `n` follows from `n`, so that millions can be checked from memory of a few.

use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::payload::Payload;
use semel_core::publish::{Draft, Publish};
use semel_core::queue::QueueConfig;
use semel_core::retention::Retention;
use semel_core::retry::{Jitter, RetryPolicy, Strategy};
use semel_core::time::Millis;
use semel_proof::dice::mixed;
use semel_store::Command;

/// One job in so many is kept for good; all others go when their window is over.
pub(crate) const KEPT: u64 = 20;
/// How long the key of a job that is not kept holds.
pub(crate) const WINDOW: Millis = Millis::from_secs(60);
/// Queues of each kind.
const QUEUES: u64 = 4;

/// What workers do with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Acknowledged at once.
    Smooth,
    /// Fails once, then is acknowledged.
    Bumpy,
    /// Deferred once, then acknowledged.
    Deferred,
    /// Forgotten once, so that its lease runs out, then acknowledged.
    Forgotten,
    /// Rejected.
    Rejected,
    /// Called off before anybody gets it. It is published with a delay, so that nobody can.
    Cancelled,
}

impl Life {
    pub(crate) fn of(n: u64) -> Self {
        match mixed(n ^ 0x50a4) % 100 {
            0..=1 => Self::Rejected,
            2..=4 => Self::Bumpy,
            5..=6 => Self::Deferred,
            7 => Self::Forgotten,
            8 => Self::Cancelled,
            _ => Self::Smooth,
        }
    }

    pub(crate) fn end(self) -> State {
        match self {
            Self::Rejected => State::Dead,
            Self::Cancelled => State::Cancelled,
            _ => State::Completed,
        }
    }

    /// Attempts when it has ended. A lease that was forgotten may also be lost in a reopen, and then counts as none.
    pub(crate) fn attempts(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Self::Bumpy => 2..=2,
            Self::Forgotten => 1..=2,
            Self::Cancelled => 0..=0,
            _ => 1..=1,
        }
    }
}

pub(crate) fn is_kept(n: u64) -> bool {
    n.is_multiple_of(KEPT)
}

pub(crate) fn queue(n: u64) -> QueueName {
    let kind = if is_kept(n) { "kept" } else { "brief" };
    QueueName::try_from(format!("{kind}-{}", mixed(n) % QUEUES)).unwrap()
}

/// Every queue, with its settings.
pub(crate) fn queues() -> Vec<(QueueName, QueueConfig)> {
    let long = Millis::from_days(300);
    let base = QueueConfig {
        max_attempts: 5,
        retry: RetryPolicy {
            strategy: Strategy::Fixed,
            base: Millis::from_secs(2),
            jitter: Jitter::Full,
            ..RetryPolicy::default()
        },
        window: long,
        retention: Retention { completed: long, dead: long, archive: false },
        ..QueueConfig::default()
    };
    let short = Millis::from_secs(20);
    let brief = QueueConfig {
        window: WINDOW,
        retention: Retention { completed: short, dead: short, archive: false },
        ..base.clone()
    };
    let named = |kind: &str, config: QueueConfig| {
        (0..QUEUES)
            .map(move |i| (QueueName::try_from(format!("{kind}-{i}")).unwrap(), config.clone()))
            .collect::<Vec<_>>()
    };
    [named("kept", base), named("brief", brief)].concat()
}

pub(crate) fn key(n: u64) -> Key {
    Key::try_from(format!("order-{n}")).unwrap()
}

/// The number of the job with this key.
pub(crate) fn number(key: &Key) -> u64 {
    key.as_str().strip_prefix("order-").unwrap().parse().unwrap()
}

pub(crate) fn payload(n: u64) -> Payload {
    let size = usize::try_from(mixed(n ^ 0x512e) % 200).unwrap();
    Payload::from_parsed(format!("{{\"order\":{n},\"note\":\"{}\"}}", "y".repeat(size)))
}

fn publish(n: u64) -> Publish {
    let delay = (Life::of(n) == Life::Cancelled).then_some(Millis::from_hours(1));
    Draft { delay, ..Draft::new(queue(n), payload(n)).with_key(key(n)) }.check().unwrap()
}

pub(crate) fn command(n: u64) -> Command {
    Command::Publish(publish(n))
}
