//! The settings of a queue, their limits, and the rules they make.

mod delivery;
mod duplicates;

use std::ops::RangeInclusive;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

pub use crate::breaker::BreakerConfig;
pub use crate::outcome::DeferScope;
pub use crate::rate::RateLimit;
pub use crate::retention::Retention;
pub use crate::retry::RetryPolicy;
pub use delivery::{
    AckTimeoutAction, DEFAULT_ACK_TIMEOUT, DEFAULT_LEASE, DEFAULT_TIMEOUT, Delivery, PUSH_GRACE, Pull, Push,
    PushMode, Signature, TIMEOUT_RANGE, URL_MAX,
};
pub use duplicates::{DUPLICATES_MAX, DuplicateAction, DuplicateLimit};

use crate::lease::LEASE_RANGE;
use crate::retry::ATTEMPTS_MAX;
use crate::time::Millis;
use crate::violation::Violations;

/// Attempts of a job by default. With the default waits and their jitter they are spread over about an hour, two at most.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;

/// Default key window. What broke on Friday evening is often mended on Monday; until then a publisher may still repeat a
/// publish, and it must find its first job.
pub const DEFAULT_WINDOW: Millis = Millis::from_hours(72);

/// Longest key window. Keys are kept on disk for it; whoever must remember for longer has a ledger.
pub const WINDOW_MAX: Millis = Millis::from_days(365);

/// Default limit of a payload in bytes. A job carries references, not files.
pub const DEFAULT_PAYLOAD_LIMIT: u32 = 256 * 1024;

/// Largest limit of a payload in bytes. A batch of publishes is held in memory until it is on disk.
pub const PAYLOAD_LIMIT_MAX: u32 = 16 * 1024 * 1024;

/// Longest key pattern, in characters. A key has 255; its pattern is no longer than a few of them.
pub const PATTERN_MAX: usize = 1000;

/// Largest compiled key pattern, in bytes. Repetitions multiply: a pattern of ten characters can ask for gigabytes.
pub const PATTERN_SIZE_MAX: usize = 1024 * 1024;

/// Most pointers to ignore in a collision. Each is compared with every difference.
pub const COLLISION_IGNORE_MAX: usize = 100;

/// Everything that can be set for a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct QueueConfig {
    /// How jobs reach their workers.
    pub delivery: Delivery,
    /// The waits between attempts.
    pub retry: RetryPolicy,
    /// Attempts before a job is dead.
    pub max_attempts: u32,
    /// Most jobs in flight at once; no limit if absent.
    pub concurrency: Option<u32>,
    /// Most jobs going out in a span of time; no limit if absent.
    pub rate: Option<RateLimit>,
    /// Most open jobs of one group at once (1 is strict order); groups do not gate if absent.
    pub group_concurrency: Option<u32>,
    /// What waits when a worker asks for time and does not say what.
    pub defer_scope: DeferScope,
    /// When to stop sending to a failing endpoint; never if absent.
    pub breaker: Option<BreakerConfig>,
    /// How long a key holds after the end of its job.
    pub window: Millis,
    /// Whether a publish without a key is refused.
    pub require_key: bool,
    /// What a whole key must look like: a regular expression.
    pub key_pattern: Option<String>,
    /// What to do when a key comes back with another payload.
    pub on_collision: OnCollision,
    /// JSON pointers to what may differ without being a collision.
    pub collision_ignore: Vec<String>,
    /// What a publish does when the job that holds its key is dead.
    pub on_dead: OnDead,
    /// When a job that keeps coming back is noticed, and what happens to it; never if absent.
    pub duplicates: Option<DuplicateLimit>,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// Largest payload, in bytes.
    pub payload_limit: u32,
    /// How long the workers' ledger remembers an effect, if it is known; the window proof needs it.
    pub ledger_ttl: Option<Millis>,
}

/// What to do when a key comes back with another payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnCollision {
    /// Return the first job and say that the payload differs.
    #[default]
    Flag,
    /// Refuse the publish and say what differs.
    Reject,
}

/// What a publish does when the job that holds its key is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDead {
    /// Return the dead job.
    #[default]
    Keep,
    /// Replay it.
    Revive,
    /// Take its key away and create a new job.
    Release,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            delivery: Delivery::Pull(Pull::default()),
            retry: RetryPolicy::default(),
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            concurrency: None,
            rate: None,
            group_concurrency: None,
            defer_scope: DeferScope::default(),
            breaker: None,
            window: DEFAULT_WINDOW,
            require_key: false,
            key_pattern: None,
            on_collision: OnCollision::default(),
            collision_ignore: Vec::new(),
            on_dead: OnDead::default(),
            duplicates: None,
            retention: Retention::default(),
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            ledger_ttl: None,
        }
    }
}

impl QueueConfig {
    /// Finds everything that is wrong with the settings.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut found = Violations::default();
        self.delivery.check(&mut found);
        self.retry.check(&mut found);
        self.check_limits(&mut found);
        self.check_keys(&mut found);
        if let Some(duplicates) = &self.duplicates {
            duplicates.check(&mut found);
        }
        self.retention.check(&mut found);
        found.into_result()
    }

    fn check_limits(&self, found: &mut Violations) {
        found.require((1..=ATTEMPTS_MAX).contains(&self.max_attempts), "maxAttempts", || {
            format!("must be from 1 to {ATTEMPTS_MAX}, got {}", self.max_attempts)
        });
        for (field, limit) in
            [("concurrency", self.concurrency), ("groupConcurrency", self.group_concurrency)]
        {
            found.require(limit != Some(0), field, || {
                "must be at least 1; pause the queue to stop it".to_owned()
            });
        }
        if let Some(rate) = &self.rate {
            rate.check(found);
        }
        if let Some(breaker) = &self.breaker {
            breaker.check(found);
        }
        found.require((1..=PAYLOAD_LIMIT_MAX).contains(&self.payload_limit), "payloadLimit", || {
            format!("must be from 1 to {PAYLOAD_LIMIT_MAX} bytes, got {}", self.payload_limit)
        });
    }

    fn check_keys(&self, found: &mut Violations) {
        found.require(self.window <= WINDOW_MAX, "window", || {
            format!("must be at most {WINDOW_MAX}, got {}", self.window)
        });
        if let Some(Err(problem)) = self.key_pattern.as_deref().map(compile) {
            found.add("keyPattern", problem);
        }
        found.require(self.collision_ignore.len() <= COLLISION_IGNORE_MAX, "collisionIgnore", || {
            format!("must list at most {COLLISION_IGNORE_MAX} pointers, got {}", self.collision_ignore.len())
        });
        for (i, pointer) in self.collision_ignore.iter().enumerate() {
            found.require(is_json_pointer(pointer), &format!("collisionIgnore[{i}]"), || {
                format!("{pointer:?} is not a JSON pointer, such as \"/meta/sentAt\" (RFC 6901)")
            });
        }
        found.require(self.ledger_ttl != Some(Millis::ZERO), "ledgerTtl", || {
            "must be more than 0; leave it out if it is not known".to_owned()
        });
    }
}

/// Compiles a pattern so that it must match a whole key. A pattern for `order-17` that also let `order-17-6fa9c0d2` pass
/// would miss the very mistake it is there for: a random part that makes every retry a new key.
fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.chars().count() > PATTERN_MAX {
        return Err(format!("must be at most {PATTERN_MAX} characters long"));
    }
    let build = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build();
    // On its own first, or a stray parenthesis could close the group that is put around it.
    build(pattern)
        .and_then(|_| build(&format!(r"\A(?:{pattern})\z")))
        .map_err(|e| format!("is not a usable regular expression: {e}"))
}

/// Whether a text is a JSON pointer: empty, or parts that each start with `/`, where `~` only occurs as `~0` or `~1`.
fn is_json_pointer(text: &str) -> bool {
    let escapes_well = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes_well
}

/// Valid settings, made ready for use.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The settings.
    pub config: QueueConfig,
    pattern: Option<Regex>,
}

impl Rules {
    /// Validates the settings and compiles what needs compiling.
    pub fn new(config: QueueConfig) -> Result<Self, Violations> {
        config.validate()?;
        let pattern = config.key_pattern.as_deref().map(compile).transpose();
        let pattern = pattern.map_err(|problem| Violations::one("keyPattern", problem))?;
        Ok(Self { config, pattern })
    }

    /// Whether a key looks as this queue wants it.
    pub fn key_matches(&self, key: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(key))
    }

    /// How long a delivery may hold a job without a word; `timeout_override` is the job's own time-out.
    ///
    /// The override is held to the limits of this queue's kind, because the queue may have changed from pull to push since.
    pub fn lease_time(&self, timeout_override: Option<Millis>) -> Millis {
        match &self.config.delivery {
            Delivery::Pull(pull) => clamp(timeout_override.unwrap_or(pull.lease), LEASE_RANGE),
            Delivery::Push(push) => {
                clamp(timeout_override.unwrap_or(push.timeout), TIMEOUT_RANGE).plus(PUSH_GRACE)
            }
        }
    }

    /// How long a worker may take to settle a job it has received. A queue that was changed to pull while a webhook was
    /// being called still needs an answer, and gives the default one.
    pub fn ack_time(&self) -> Millis {
        match &self.config.delivery {
            Delivery::Push(push) => push.ack_timeout,
            Delivery::Pull(_) => DEFAULT_ACK_TIMEOUT,
        }
    }
}

fn clamp(span: Millis, range: RangeInclusive<Millis>) -> Millis {
    span.clamp(*range.start(), *range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(config: &QueueConfig) -> Vec<String> {
        config.validate().err().map(|v| v.iter().map(|v| v.field.clone()).collect()).unwrap_or_default()
    }

    fn with_pattern(pattern: &str) -> QueueConfig {
        QueueConfig { key_pattern: Some(pattern.to_owned()), ..QueueConfig::default() }
    }

    fn push() -> Push {
        Push { url: "https://worker.example/jobs".into(), ..Push::default() }
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(QueueConfig::default().validate(), Ok(()));
        let pushed = QueueConfig { delivery: Delivery::Push(push()), ..QueueConfig::default() };
        assert_eq!(pushed.validate(), Ok(()));
    }

    #[test]
    fn every_violation_is_named_at_once() {
        let config = QueueConfig {
            delivery: Delivery::Push(Push::default()),
            retry: RetryPolicy { factor: f64::NAN, ..RetryPolicy::default() },
            max_attempts: 101,
            concurrency: Some(0),
            rate: Some(RateLimit { count: 0, per: Millis::from_secs(1), burst: 1 }),
            group_concurrency: Some(0),
            breaker: Some(BreakerConfig { failures: 0, cooldown: Millis::from_secs(1) }),
            window: WINDOW_MAX.plus(Millis::from_millis(1)),
            key_pattern: Some("(".into()),
            collision_ignore: vec![
                "/fine/~01".into(),
                "meta".into(),
                "/a~2".into(),
                "/a~".into(),
                String::new(),
            ],
            duplicates: Some(DuplicateLimit { limit: 0, action: DuplicateAction::Dead }),
            retention: Retention { dead: Millis::from_days(366), ..Retention::default() },
            payload_limit: 0,
            ledger_ttl: Some(Millis::ZERO),
            ..QueueConfig::default()
        };
        let expected = [
            "delivery.url",
            "retry.factor",
            "maxAttempts",
            "concurrency",
            "groupConcurrency",
            "rate.count",
            "breaker.failures",
            "payloadLimit",
            "window",
            "keyPattern",
            "collisionIgnore[1]",
            "collisionIgnore[2]",
            "collisionIgnore[3]",
            "ledgerTtl",
            "duplicates.limit",
            "retention.dead",
        ];
        assert_eq!(fields(&config), expected);
    }

    #[test]
    fn the_limits_themselves_are_allowed() {
        let config = QueueConfig {
            max_attempts: ATTEMPTS_MAX,
            window: WINDOW_MAX,
            concurrency: Some(1),
            payload_limit: PAYLOAD_LIMIT_MAX,
            collision_ignore: vec!["/a".into(); COLLISION_IGNORE_MAX],
            ..QueueConfig::default()
        };
        assert_eq!(fields(&config), [""; 0]);
        let past = QueueConfig {
            max_attempts: 0,
            payload_limit: PAYLOAD_LIMIT_MAX + 1,
            collision_ignore: vec!["/a".into(); COLLISION_IGNORE_MAX + 1],
            ..config
        };
        assert_eq!(fields(&past), ["maxAttempts", "payloadLimit", "collisionIgnore"]);
    }

    #[test]
    fn a_pattern_must_match_the_whole_key() {
        let rules = Rules::new(with_pattern(r"order-\d+|refund-\d+")).unwrap();
        assert!(rules.key_matches("order-17"));
        assert!(rules.key_matches("refund-17"));
        for other in ["order-17-6fa9c0d2", "my-order-17", "order-17\n", "order-", ""] {
            assert!(!rules.key_matches(other), "{other:?}");
        }
        assert!(Rules::new(QueueConfig::default()).unwrap().key_matches("anything"));
    }

    #[test]
    fn a_pattern_cannot_break_out_or_blow_up() {
        for bad in ["(", "a)|(?:b", r"(?:\w{200}){200}", r"(a)\1", "(?=a)", &"a".repeat(PATTERN_MAX + 1)] {
            assert_eq!(fields(&with_pattern(bad)), ["keyPattern"], "{bad}");
            assert!(Rules::new(with_pattern(bad)).is_err());
        }
        assert_eq!(fields(&with_pattern(r"[a-z0-9-]{1,255}")), [""; 0], "a pattern as wide as a key fits");
    }

    #[test]
    fn a_delivery_holds_its_job_for_the_lease_or_the_time_out_and_a_grace() {
        let pull = Rules::new(QueueConfig::default()).unwrap();
        assert_eq!(pull.lease_time(None), DEFAULT_LEASE);
        assert_eq!(pull.lease_time(Some(Millis::from_secs(7))), Millis::from_secs(7));
        let push = QueueConfig { delivery: Delivery::Push(push()), ..QueueConfig::default() };
        let push = Rules::new(push).unwrap();
        assert_eq!(push.lease_time(None), DEFAULT_TIMEOUT.plus(PUSH_GRACE));
        assert_eq!(push.lease_time(Some(Millis::from_hours(9))), TIMEOUT_RANGE.end().plus(PUSH_GRACE));
        assert_eq!(push.lease_time(Some(Millis::ZERO)), TIMEOUT_RANGE.start().plus(PUSH_GRACE));
    }

    #[test]
    fn a_received_job_has_the_ack_time_out() {
        let push = Push { ack_timeout: Millis::from_secs(77), mode: PushMode::Ack, ..push() };
        let config = QueueConfig { delivery: Delivery::Push(push), ..QueueConfig::default() };
        assert_eq!(Rules::new(config).unwrap().ack_time(), Millis::from_secs(77));
        assert_eq!(Rules::new(QueueConfig::default()).unwrap().ack_time(), DEFAULT_ACK_TIMEOUT);
    }

    #[test]
    fn stored_settings_are_read_back_and_gaps_are_filled() {
        let config = QueueConfig {
            delivery: Delivery::Push(Push { signature: Signature::SimpleQ, ..push() }),
            rate: Some(RateLimit { count: 5, per: Millis::from_secs(1), burst: 2 }),
            ..QueueConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<QueueConfig>(&text).unwrap(), config);
        assert_eq!(serde_json::from_str::<QueueConfig>("{}").unwrap(), QueueConfig::default());
        let partial =
            r#"{"delivery":{"type":"push","url":"https://worker.example/jobs"},"retry":{"base":5000}}"#;
        let read = serde_json::from_str::<QueueConfig>(partial).unwrap();
        assert_eq!(read, QueueConfig { delivery: Delivery::Push(push()), ..QueueConfig::default() });
    }

    #[test]
    fn unknown_settings_are_refused() {
        for bad in [
            r#"{"windw":1}"#,
            r#"{"retry":{"bse":1}}"#,
            r#"{"delivery":{"type":"push","url":"http://a","lease":1}}"#,
            r#"{"delivery":{"type":"carrier pigeon"}}"#,
            r#"{"retention":{"failed":1}}"#,
        ] {
            assert!(serde_json::from_str::<QueueConfig>(bad).is_err(), "{bad}");
        }
    }
}
