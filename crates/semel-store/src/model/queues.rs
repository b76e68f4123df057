//! The queues of a history: three names, and settings that differ in all that decides.

use semel_core::breaker::BreakerConfig;
use semel_core::name::QueueName;
use semel_core::outcome::DeferScope;
use semel_core::queue::{AckTimeoutAction, Delivery, OnCollision, OnDead, Pull, Push, PushMode, QueueConfig};
use semel_core::rate::RateLimit;
use semel_core::retention::Retention;
use semel_core::retry::{Jitter, RetryPolicy, Strategy};
use semel_core::time::Millis;

/// The names.
pub(super) const QUEUES: [&str; 3] = ["orders", "mail", "hooks"];
/// How many shapes there are that a queue can have.
pub(super) const VALID_SHAPES: usize = 6;
/// How many shapes there are, with the last, which is refused.
pub(super) const SHAPES: usize = VALID_SHAPES + 1;

const fn secs(n: u64) -> Millis {
    Millis::from_secs(n)
}

/// The name of a queue.
pub(super) fn name(queue: usize) -> QueueName {
    QueueName::try_from(QUEUES[queue]).expect("the names are plain")
}

/// The settings of a shape.
pub(super) fn shape(shape: usize) -> QueueConfig {
    match shape {
        0 => plain(),
        1 => strict_groups(),
        2 => short_lived(),
        3 => throttled(),
        4 => acked(),
        5 => everything_at_once(),
        _ => QueueConfig { max_attempts: 0, ..plain() },
    }
}

fn plain() -> QueueConfig {
    QueueConfig {
        retry: fixed(secs(10)),
        max_attempts: 3,
        // The key outlives the job, so that jobs are stripped before they are dropped.
        window: secs(120),
        retention: Retention { completed: secs(30), dead: secs(60), archive: false },
        delivery: Delivery::Pull(Pull { lease: secs(20) }),
        ..QueueConfig::default()
    }
}

fn strict_groups() -> QueueConfig {
    QueueConfig {
        group_concurrency: Some(1),
        retry: RetryPolicy { base: secs(2), cap: secs(60), ..RetryPolicy::default() },
        max_attempts: 2,
        on_dead: OnDead::Revive,
        // Other shapes have no archive, so a change of shape turns it on and off.
        retention: Retention { archive: true, ..plain().retention },
        ..plain()
    }
}

/// Nothing is kept once it has finished, and a key holds for seconds.
fn short_lived() -> QueueConfig {
    QueueConfig {
        group_concurrency: Some(2),
        on_collision: OnCollision::Reject,
        collision_ignore: vec!["/at".into()],
        window: secs(5),
        retention: Retention { completed: Millis::ZERO, dead: Millis::ZERO, archive: false },
        defer_scope: DeferScope::Job,
        ..plain()
    }
}

fn throttled() -> QueueConfig {
    QueueConfig {
        concurrency: Some(2),
        rate: Some(RateLimit { count: 2, per: secs(10), burst: 2 }),
        breaker: Some(BreakerConfig { failures: 2, cooldown: secs(20) }),
        on_dead: OnDead::Release,
        ..plain()
    }
}

fn acked() -> QueueConfig {
    let push = Push {
        url: "http://worker.example/jobs".into(),
        mode: PushMode::Ack,
        timeout: secs(5),
        ack_timeout: secs(40),
        ack_timeout_action: AckTimeoutAction::Dead,
        ..Push::default()
    };
    QueueConfig {
        delivery: Delivery::Push(push),
        require_key: true,
        key_pattern: Some("k[0-9]".into()),
        payload_limit: 64,
        on_dead: OnDead::Release,
        ..plain()
    }
}

fn everything_at_once() -> QueueConfig {
    QueueConfig {
        group_concurrency: Some(1),
        on_collision: OnCollision::Reject,
        on_dead: OnDead::Revive,
        concurrency: Some(1),
        retry: fixed(Millis::ZERO),
        ..throttled()
    }
}

fn fixed(base: Millis) -> RetryPolicy {
    RetryPolicy { strategy: Strategy::Fixed, base, jitter: Jitter::None, ..RetryPolicy::default() }
}

#[cfg(test)]
mod tests {
    use semel_core::queue::Rules;

    use super::*;

    #[test]
    fn only_the_last_shape_is_refused() {
        let refused: Vec<_> = (0..SHAPES).filter(|&i| Rules::new(shape(i)).is_err()).collect();
        assert_eq!(refused, [VALID_SHAPES]);
    }
}
