//! The window proof: do the key window and the ledger remember for as long as a job can come back?
//!
//! A **key** never expires while its job is unfinished, so no number of retries can outlast it. Once the job has ended the
//! window runs, and one thing can still make the job run: it is dead, and somebody replays it. Were the key free by then,
//! a publisher could have published the same work again, and both would run. So the window must last as long as a dead
//! letter can be replayed, which is its retention. The replayed life adds nothing: during it the job is unfinished, and
//! its end starts the window anew. Where the queue says that a dead job gives up its key (`onDead: release`) the window
//! guards nothing here, and nothing is demanded of it.
//!
//! A **ledger** entry is made in the moment of the effect and expires from there. The effect may have happened in the first
//! attempt, whose ack was lost. After that the job may live on for
//!
//! ```text
//!   life = max_attempts x (lease, or push time-out [+ ack time-out]) + all waits between attempts
//! ```
//!
//! then be a dead letter for its whole retention, be replayed at the last moment, and live once more. The ledger must
//! remember for all of it, or the last attempt repeats the effect: two lives and the dead-letter retention.
//!
//! Four things have no bound and are left out of the proof: leases that the worker itself extends, holds and pauses, dead
//! letters that wait for their archive past their retention (`retention.archive`), and the second and later replays, each
//! of which adds a life and a retention. Settings that a single job overrides
//! are left out too.

use std::fmt;

use crate::queue::{Delivery, OnDead, PUSH_GRACE, PushMode, QueueConfig};
use crate::time::Millis;

/// A setting that forgets too early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// The setting, named as the caller knows it.
    pub setting: &'static str,
    /// What it is.
    pub has: Millis,
    /// The least it must be.
    pub needs: Millis,
    /// The difference.
    pub short_by: Millis,
    /// What can happen otherwise, and what the need is made of.
    pub because: String,
}

impl fmt::Display for Shortfall {
    /// The remedy is given in whole seconds, as settings are; a rounded span might still be too short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, has, needs, short_by, because } = self;
        let seconds = needs.millis().div_ceil(1000);
        write!(f, "{setting} ({has}) is too short by {short_by}: {because}. ")?;
        write!(f, "Set {setting} to at least {seconds} seconds, or lower what it has to cover")
    }
}

/// Proves that a queue's settings remember long enough, or says which do not. `ledger_ttl` is what is known from
/// elsewhere, such as a worker's report; of that and the queue's own setting the shorter counts.
pub fn prove(config: &QueueConfig, ledger_ttl: Option<Millis>) -> Vec<Shortfall> {
    let ledger = ledger_ttl.into_iter().chain(config.ledger_ttl).min();
    key_window(config).into_iter().chain(ledger.and_then(|ttl| ledger_window(config, ttl))).collect()
}

/// The longest time from a job's first delivery to its end, as far as settings bound it.
pub fn longest_life(config: &QueueConfig) -> Millis {
    let attempts = delivery_time(config).times(u64::from(config.max_attempts));
    config.retry.longest_span(config.max_attempts).plus(attempts)
}

/// The longest time one delivery can hold a job.
fn delivery_time(config: &QueueConfig) -> Millis {
    match &config.delivery {
        Delivery::Pull(pull) => pull.lease,
        Delivery::Push(push) => match push.mode {
            PushMode::Standard => push.timeout.plus(PUSH_GRACE),
            PushMode::Ack => push.timeout.plus(PUSH_GRACE).plus(push.ack_timeout),
        },
    }
}

fn key_window(config: &QueueConfig) -> Option<Shortfall> {
    if config.on_dead == OnDead::Release {
        return None;
    }
    let needs = config.retention.dead;
    shortfall("window", config.window, needs, || {
        format!(
            "a dead letter can be replayed for {needs} (retention.dead), but its key is free before, \
             so the same work can be published again and run twice"
        )
    })
}

fn ledger_window(config: &QueueConfig, ttl: Millis) -> Option<Shortfall> {
    let (life, dead) = (longest_life(config), config.retention.dead);
    let needs = life.plus(dead).plus(life);
    shortfall("ledgerTtl", ttl, needs, || {
        let (attempts, each) = (config.max_attempts, delivery_time(config));
        let waits = config.retry.longest_span(attempts);
        format!(
            "after its effect a job can live on for {life} ({attempts} attempts of {each}, and {waits} of waits), \
             be a dead letter for {dead} (retention.dead), and be replayed for another {life}; \
             an attempt after the ledger has forgotten repeats the effect"
        )
    })
}

fn shortfall(
    setting: &'static str,
    has: Millis,
    needs: Millis,
    because: impl FnOnce() -> String,
) -> Option<Shortfall> {
    (has < needs).then(|| Shortfall { setting, has, needs, short_by: needs.minus(has), because: because() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::{Pull, Push, RetryPolicy};
    use crate::retention::Retention;
    use crate::retry::Strategy;

    const HOUR: Millis = Millis::from_hours(1);

    /// 3 attempts, leases of 10 s, waits of 60 s, dead letters kept for an hour: a life of 150 s.
    fn queue() -> QueueConfig {
        QueueConfig {
            delivery: Delivery::Pull(Pull { lease: Millis::from_secs(10) }),
            retry: RetryPolicy {
                strategy: Strategy::Fixed,
                base: Millis::from_secs(60),
                ..RetryPolicy::default()
            },
            max_attempts: 3,
            window: HOUR,
            retention: Retention { completed: Millis::ZERO, dead: HOUR, archive: false },
            ..QueueConfig::default()
        }
    }

    fn push(mode: PushMode) -> QueueConfig {
        let push = Push {
            mode,
            timeout: Millis::from_secs(20),
            ack_timeout: Millis::from_secs(100),
            ..Push::default()
        };
        QueueConfig { delivery: Delivery::Push(push), ..queue() }
    }

    #[test]
    fn a_life_is_its_deliveries_and_the_waits_between_them() {
        let cases = [
            (queue(), 3 * 10 + 2 * 60),
            (QueueConfig { max_attempts: 1, ..queue() }, 10),
            (push(PushMode::Standard), 3 * (20 + 10) + 2 * 60),
            (push(PushMode::Ack), 3 * (20 + 10 + 100) + 2 * 60),
        ];
        for (config, seconds) in cases {
            assert_eq!(longest_life(&config), Millis::from_secs(seconds));
        }
    }

    #[test]
    fn the_window_must_outlast_the_dead_letters() {
        let minute_short = HOUR.minus(Millis::from_secs(60));
        let cases = [
            (HOUR, OnDead::Keep, None),
            (minute_short, OnDead::Keep, Some(60)),
            (minute_short, OnDead::Revive, Some(60)),
            (minute_short, OnDead::Release, None),
            (Millis::ZERO, OnDead::Keep, Some(3600)),
        ];
        for (window, on_dead, short_by) in cases {
            let found = prove(&QueueConfig { window, on_dead, ..queue() }, None);
            let found = found.iter().map(|s| (s.setting, s.short_by.millis() / 1000)).collect::<Vec<_>>();
            assert_eq!(found, short_by.map(|s| ("window", s)).into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_ledger_must_outlast_two_lives_and_the_dead_letters() {
        let needs = 150 + 3600 + 150;
        let cases = [
            (None, None, None),
            (Some(needs), None, None),
            (Some(needs - 1), None, Some(1)),
            (None, Some(needs - 2), Some(2)),
            (Some(needs - 3), Some(needs), Some(3)),
            (Some(needs), Some(needs - 4), Some(4)),
        ];
        for (own, reported, short_by) in cases {
            let config = QueueConfig { ledger_ttl: own.map(Millis::from_secs), ..queue() };
            let found = prove(&config, reported.map(Millis::from_secs));
            let found = found.iter().map(|s| (s.setting, s.short_by)).collect::<Vec<_>>();
            let expected = short_by.map(|s| ("ledgerTtl", Millis::from_secs(s)));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{own:?} {reported:?}");
        }
    }

    #[test]
    fn the_defaults_pass_with_a_ledger_of_its_default_72_hours() {
        let ledger = Some(Millis::from_hours(72));
        assert_eq!(prove(&QueueConfig::default(), ledger), []);
        for mode in [PushMode::Standard, PushMode::Ack] {
            let delivery = Delivery::Push(Push { mode, ..Push::default() });
            assert_eq!(prove(&QueueConfig { delivery, ..QueueConfig::default() }, ledger), []);
        }
    }

    #[test]
    fn a_shortfall_says_which_setting_by_how_much_and_what_to_do() {
        let config = QueueConfig { window: Millis::from_secs(60), ..queue() };
        let found = prove(&config, Some(Millis::from_millis(3_600_500)));
        let text = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            text,
            [
                "window (1m) is too short by 59m: a dead letter can be replayed for 1h (retention.dead), but its key is \
                 free before, so the same work can be published again and run twice. Set window to at least 3600 \
                 seconds, or lower what it has to cover",
                "ledgerTtl (1h 500ms) is too short by 4m 59s: after its effect a job can live on for 2m 30s (3 attempts \
                 of 10s, and 2m of waits), be a dead letter for 1h (retention.dead), and be replayed for another 2m 30s; \
                 an attempt after the ledger has forgotten repeats the effect. Set ledgerTtl to at least 3900 seconds, \
                 or lower what it has to cover",
            ]
        );
    }

    proptest! {
        #[test]
        fn doing_as_told_mends_the_shortfall(
            window in 0_u64..10_000_000, dead in 0_u64..10_000_000, ttl in 1_u64..10_000_000, attempts in 1_u32..=100,
        ) {
            let config = QueueConfig {
                window: Millis::from_millis(window),
                max_attempts: attempts,
                retention: Retention { dead: Millis::from_millis(dead), ..Retention::default() },
                ledger_ttl: Some(Millis::from_millis(ttl)),
                ..QueueConfig::default()
            };
            let mut mended = config.clone();
            for short in prove(&config, None) {
                prop_assert_eq!(short.has.plus(short.short_by), short.needs);
                match short.setting {
                    "window" => mended.window = short.needs,
                    "ledgerTtl" => mended.ledger_ttl = Some(short.needs),
                    other => prop_assert!(false, "{}", other),
                }
            }
            prop_assert_eq!(prove(&mended, None), []);
        }
    }
}
