//! The settings of a queue on the wire: seconds instead of milliseconds, and everything may be left out.

use semel_core::breaker::BreakerConfig;
use semel_core::outcome::DeferScope;
use semel_core::queue::{
    AckTimeoutAction, Delivery, DuplicateAction, DuplicateLimit, OnCollision, OnDead, Pull, Push, PushMode,
    QueueConfig, Signature,
};
use semel_core::rate::RateLimit;
use semel_core::retention::Retention;
use semel_core::retry::{Jitter, RetryPolicy, Strategy};
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::settle::ScopeBody;
use super::wire::Seconds;

/// How a queue behaves.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = QueueConfig)]
pub(super) struct QueueBody {
    /// How jobs reach their workers (pull).
    delivery: Option<DeliveryBody>,
    /// The waits between attempts.
    retry: Option<RetryBody>,
    /// Attempts before a job is dead (10).
    #[schema(minimum = 1)]
    max_attempts: Option<u32>,
    /// Most jobs in flight at once.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// Most jobs going out in a span of time.
    rate: Option<RateBody>,
    /// Most open jobs of one group at once; 1 is strict order.
    #[schema(minimum = 1)]
    group_concurrency: Option<u32>,
    /// What waits when a worker asks for time and does not say what (`queue`).
    defer_scope: Option<ScopeBody>,
    /// When to stop sending to a failing endpoint.
    breaker: Option<BreakerBody>,
    /// Seconds a key holds after the end of its job (72 h).
    #[schema(value_type = Option<f64>)]
    window: Option<Seconds>,
    /// Whether a publish without a key is refused.
    require_key: Option<bool>,
    /// What a whole key must look like: a regular expression.
    key_pattern: Option<String>,
    /// What to do when a key comes back with another payload: `flag` or `reject`.
    #[schema(value_type = Option<String>)]
    on_collision: Option<OnCollision>,
    /// JSON pointers to what may differ.
    collision_ignore: Option<Vec<String>>,
    /// What a publish does when the job that holds its key is dead: `keep`, `revive` or `release`.
    #[schema(value_type = Option<String>)]
    on_dead: Option<OnDead>,
    /// How long finished jobs are kept.
    retention: Option<RetentionBody>,
    /// When a duplicate is a persistent one, and what to do then.
    duplicates: Option<DuplicatesBody>,
    /// Largest payload in bytes (256 KiB).
    #[schema(minimum = 1)]
    payload_limit: Option<u32>,
    /// Seconds the workers' ledger remembers an effect, for the window proof.
    #[schema(value_type = Option<f64>)]
    ledger_ttl: Option<Seconds>,
}

/// How jobs reach their workers.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
#[schema(as = DeliveryConfig)]
pub(super) enum DeliveryBody {
    /// The server calls a webhook.
    Push(PushBody),
    /// Workers come and lease.
    Pull(PullBody),
}

/// The webhook of a push queue.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Push)]
pub(super) struct PushBody {
    /// Where jobs are posted to.
    #[serde(default)]
    #[schema(required = true)]
    url: String,
    /// What 2xx means: `standard` (done) or `ack` (received).
    #[schema(value_type = Option<String>)]
    mode: Option<PushMode>,
    /// Seconds the webhook may take (15).
    #[schema(value_type = Option<f64>)]
    timeout: Option<Seconds>,
    /// Seconds a worker in ack mode may take to settle (300).
    #[schema(value_type = Option<f64>)]
    ack_timeout: Option<Seconds>,
    /// What happens when it does not: `retry` or `dead`.
    #[schema(value_type = Option<String>)]
    ack_timeout_action: Option<AckTimeoutAction>,
    /// Which signatures it gets: `standard`, or `simpleq` for both.
    #[schema(value_type = Option<String>)]
    signature: Option<Signature>,
}

/// The leases of a pull queue.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Pull)]
pub(super) struct PullBody {
    /// Seconds a worker may be silent (60).
    #[schema(value_type = Option<f64>)]
    lease_seconds: Option<Seconds>,
}

/// The waits between attempts.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Retry)]
pub(super) struct RetryBody {
    /// `exponential` or `fixed`.
    #[schema(value_type = Option<String>)]
    strategy: Option<Strategy>,
    /// Seconds before the second attempt.
    #[schema(value_type = Option<f64>)]
    base: Option<Seconds>,
    /// By what each wait is longer than the one before.
    factor: Option<f64>,
    /// Longest wait, in seconds.
    #[schema(value_type = Option<f64>)]
    cap: Option<Seconds>,
    /// `full` or `none`.
    #[schema(value_type = Option<String>)]
    jitter: Option<Jitter>,
}

/// A rate.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Rate)]
pub(super) struct RateBody {
    /// How many jobs.
    #[schema(minimum = 1)]
    count: u32,
    /// In how many seconds (1).
    #[schema(value_type = Option<f64>)]
    per: Option<Seconds>,
    /// How many may go out at once (as many as `count`).
    burst: Option<u32>,
}

/// A circuit breaker.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Breaker)]
pub(super) struct BreakerBody {
    /// Failures in a row that open it.
    #[schema(minimum = 1)]
    failures: u32,
    /// Seconds until one probe goes out.
    #[schema(value_type = f64)]
    cooldown: Seconds,
}

/// How long finished jobs are kept.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Retention)]
pub(super) struct RetentionBody {
    /// Completed and cancelled ones, in seconds.
    #[schema(value_type = Option<f64>)]
    completed: Option<Seconds>,
    /// Dead letters, in seconds.
    #[schema(value_type = Option<f64>)]
    dead: Option<Seconds>,
    /// Whether dead letters are archived before they go.
    archive: Option<bool>,
}

/// When a duplicate is a persistent one.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Duplicates)]
pub(super) struct DuplicatesBody {
    /// How often a key or an effect may come back.
    #[schema(minimum = 1)]
    limit: u32,
    /// What to do then: `count`, or `dead` to move an unfinished job to the dead letters.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    action: DuplicateAction,
}

fn span(asked: Option<Seconds>, default: Millis) -> Millis {
    asked.map_or(default, |seconds| seconds.0)
}

impl QueueBody {
    /// The settings, with defaults for what was left out.
    pub(super) fn into_config(self) -> QueueConfig {
        let usual = QueueConfig::default();
        QueueConfig {
            delivery: self.delivery.map_or(usual.delivery, DeliveryBody::into_delivery),
            retry: self.retry.map_or(usual.retry, RetryBody::into_policy),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            concurrency: self.concurrency,
            rate: self.rate.map(RateBody::into_limit),
            group_concurrency: self.group_concurrency,
            defer_scope: self.defer_scope.map_or(usual.defer_scope, ScopeBody::scope),
            breaker: self.breaker.map(|b| BreakerConfig { failures: b.failures, cooldown: b.cooldown.0 }),
            window: span(self.window, usual.window),
            require_key: self.require_key.unwrap_or(usual.require_key),
            key_pattern: self.key_pattern,
            on_collision: self.on_collision.unwrap_or_default(),
            collision_ignore: self.collision_ignore.unwrap_or_default(),
            on_dead: self.on_dead.unwrap_or_default(),
            retention: self.retention.map_or(usual.retention, RetentionBody::into_retention),
            duplicates: self.duplicates.map(|d| DuplicateLimit { limit: d.limit, action: d.action }),
            payload_limit: self.payload_limit.unwrap_or(usual.payload_limit),
            ledger_ttl: self.ledger_ttl.map(|seconds| seconds.0),
        }
    }

    /// How settings look.
    pub(super) fn of(config: &QueueConfig) -> Self {
        Self {
            delivery: Some(DeliveryBody::of(&config.delivery)),
            retry: Some(RetryBody::of(&config.retry)),
            max_attempts: Some(config.max_attempts),
            concurrency: config.concurrency,
            rate: config.rate.as_ref().map(RateBody::of),
            group_concurrency: config.group_concurrency,
            defer_scope: Some(match config.defer_scope {
                DeferScope::Queue => ScopeBody::Queue,
                DeferScope::Job => ScopeBody::Job,
            }),
            breaker: config
                .breaker
                .as_ref()
                .map(|b| BreakerBody { failures: b.failures, cooldown: Seconds(b.cooldown) }),
            window: Some(Seconds(config.window)),
            require_key: Some(config.require_key),
            key_pattern: config.key_pattern.clone(),
            on_collision: Some(config.on_collision),
            collision_ignore: Some(config.collision_ignore.clone()),
            on_dead: Some(config.on_dead),
            retention: Some(RetentionBody::of(&config.retention)),
            duplicates: config
                .duplicates
                .as_ref()
                .map(|d| DuplicatesBody { limit: d.limit, action: d.action }),
            payload_limit: Some(config.payload_limit),
            ledger_ttl: config.ledger_ttl.map(Seconds),
        }
    }
}

impl DeliveryBody {
    fn into_delivery(self) -> Delivery {
        match self {
            Self::Pull(pull) => {
                Delivery::Pull(Pull { lease: span(pull.lease_seconds, Pull::default().lease) })
            }
            Self::Push(push) => {
                let usual = Push::default();
                Delivery::Push(Push {
                    url: push.url,
                    mode: push.mode.unwrap_or_default(),
                    timeout: span(push.timeout, usual.timeout),
                    ack_timeout: span(push.ack_timeout, usual.ack_timeout),
                    ack_timeout_action: push.ack_timeout_action.unwrap_or_default(),
                    signature: push.signature.unwrap_or_default(),
                })
            }
        }
    }

    fn of(delivery: &Delivery) -> Self {
        match delivery {
            Delivery::Pull(pull) => Self::Pull(PullBody { lease_seconds: Some(Seconds(pull.lease)) }),
            Delivery::Push(push) => Self::Push(PushBody {
                url: push.url.clone(),
                mode: Some(push.mode),
                timeout: Some(Seconds(push.timeout)),
                ack_timeout: Some(Seconds(push.ack_timeout)),
                ack_timeout_action: Some(push.ack_timeout_action),
                signature: Some(push.signature),
            }),
        }
    }
}

impl RetryBody {
    /// The policy, with defaults for what was left out.
    pub(super) fn into_policy(self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        RetryPolicy {
            strategy: self.strategy.unwrap_or(usual.strategy),
            base: span(self.base, usual.base),
            factor: self.factor.unwrap_or(usual.factor),
            cap: span(self.cap, usual.cap),
            jitter: self.jitter.unwrap_or(usual.jitter),
        }
    }

    fn of(policy: &RetryPolicy) -> Self {
        Self {
            strategy: Some(policy.strategy),
            base: Some(Seconds(policy.base)),
            factor: Some(policy.factor),
            cap: Some(Seconds(policy.cap)),
            jitter: Some(policy.jitter),
        }
    }
}

impl RateBody {
    fn into_limit(self) -> RateLimit {
        RateLimit {
            count: self.count,
            per: span(self.per, Millis::from_secs(1)),
            burst: self.burst.unwrap_or(self.count),
        }
    }

    fn of(limit: &RateLimit) -> Self {
        Self { count: limit.count, per: Some(Seconds(limit.per)), burst: Some(limit.burst) }
    }
}

impl RetentionBody {
    fn into_retention(self) -> Retention {
        let usual = Retention::default();
        Retention {
            completed: span(self.completed, usual.completed),
            dead: span(self.dead, usual.dead),
            archive: self.archive.unwrap_or(usual.archive),
        }
    }

    fn of(retention: &Retention) -> Self {
        Self {
            completed: Some(Seconds(retention.completed)),
            dead: Some(Seconds(retention.dead)),
            archive: Some(retention.archive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_put_back() {
        let body = r#"{"delivery": {"type": "push", "url": "https://example.com/", "timeout": 2.5}, "maxAttempts": 3,
            "rate": {"count": 5}, "breaker": {"failures": 3, "cooldown": 10}, "duplicates": {"limit": 3, "action": "dead"},
            "retention": {"archive": true}, "onCollision": "reject", "window": 0.5, "deferScope": "job"}"#;
        let config = serde_json::from_str::<QueueBody>(body).unwrap().into_config();
        let shown = serde_json::to_string(&QueueBody::of(&config)).unwrap();
        assert_eq!(serde_json::from_str::<QueueBody>(&shown).unwrap().into_config(), config);
        assert_eq!(config.rate.as_ref().unwrap().burst, 5);
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(QueueBody::default().into_config(), QueueConfig::default());
    }

    #[test]
    fn a_misspelt_setting_is_refused_also_within() {
        for body in [
            r#"{"maxAttempt": 3}"#,
            r#"{"delivery": {"type": "pull", "leaseSecond": 3}}"#,
            r#"{"retry": {"bas": 1}}"#,
        ] {
            assert!(serde_json::from_str::<QueueBody>(body).is_err(), "{body}");
        }
    }
}
