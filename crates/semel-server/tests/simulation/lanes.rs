//! The queues of a simulation.

use semel_core::breaker::BreakerConfig;
use semel_core::name::QueueName;
use semel_core::queue::{Delivery, Pull, Push, PushMode, QueueConfig};
use semel_core::records::WebhookSecret;
use semel_core::retention::Retention;
use semel_core::retry::RetryPolicy;
use semel_core::time::{Millis, Timestamp};
use semel_proof::history::Promise;
use semel_store::Command;

/// Attempts a job may use.
const CAP: u32 = 6;
/// Longer than any simulation.
const LONG: Millis = Millis::from_days(1);
/// The lease of a pull queue, and what an extension asks for. All leases of a queue are equally long, so that a later
/// lease of a job never ends before an earlier one: the checker needs that, because a crash ends leases unseen.
pub(crate) const LEASE: Millis = Millis::from_secs(2);
/// How long a webhook may take.
pub(crate) const TIMEOUT: Millis = Millis::from_secs(2);
/// How long a worker in ack mode may take.
pub(crate) const ACK_TIMEOUT: Millis = Millis::from_secs(3);

/// One of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Pushed; the answer of the webhook settles.
    Hooks,
    /// Pushed in ack mode; the worker settles later.
    Acks,
    /// Pulled, with windows so short that keys come free and are used again.
    Pulls,
}

impl Lane {
    pub(crate) const ALL: [Self; 3] = [Self::Hooks, Self::Acks, Self::Pulls];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Acks => "acks",
            Self::Pulls => "pulls",
        }
    }

    pub(crate) fn queue(self) -> QueueName {
        QueueName::try_from(self.name()).unwrap()
    }

    /// The lane of a queue.
    pub(crate) fn of(queue: &str) -> Self {
        Self::ALL.into_iter().find(|lane| lane.name() == queue).unwrap()
    }

    /// How long what the server leases for itself is leased; `None` for a queue that workers lease from.
    pub(crate) fn push_lease(self) -> Option<Millis> {
        (self != Self::Pulls).then(|| TIMEOUT.plus(semel_core::queue::PUSH_GRACE))
    }

    fn window(self) -> Millis {
        if self == Self::Pulls { Millis::from_secs(2) } else { LONG }
    }

    fn delivery(self) -> Delivery {
        let mode = if self == Self::Acks { PushMode::Ack } else { PushMode::Standard };
        let url = format!("http://worker/{}", self.name());
        match self {
            Self::Pulls => Delivery::Pull(Pull { lease: LEASE }),
            _ => Delivery::Push(Push {
                url,
                mode,
                timeout: TIMEOUT,
                ack_timeout: ACK_TIMEOUT,
                ..Push::default()
            }),
        }
    }

    /// What makes the queue.
    pub(crate) fn put(self) -> Command {
        let breaker = BreakerConfig { failures: 5, cooldown: Millis::from_secs(1) };
        let config = QueueConfig {
            delivery: self.delivery(),
            retry: RetryPolicy {
                base: Millis::from_millis(300),
                factor: 2.0,
                cap: Millis::from_secs(2),
                ..RetryPolicy::default()
            },
            max_attempts: CAP,
            breaker: (self == Self::Hooks).then_some(breaker),
            window: self.window(),
            retention: Retention { completed: LONG, dead: LONG, archive: false },
            ..QueueConfig::default()
        };
        Command::PutQueue { name: self.queue(), config: Box::new(config) }
    }

    /// What gives the queue the secret that signs its deliveries, without which none goes out.
    pub(crate) fn put_secret(self) -> Command {
        let secret = "whsec_c2ltdWxhdGlvbnMgbmVlZCBubyBzZWNyZXRz".to_owned();
        let secrets = vec![WebhookSecret { secret, created_at: Timestamp::default(), expires_at: None }];
        Command::PutSecrets { queue: self.queue(), secrets }
    }

    /// What its jobs are promised.
    pub(crate) fn promise(self) -> Promise {
        Promise { queue: self.queue(), cap: CAP, window: self.window(), keep: LONG }
    }
}
