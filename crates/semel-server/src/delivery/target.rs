//! Where a push queue's jobs go, made ready for use once per change of the queue instead of once per delivery.

use std::sync::Arc;
use std::time::Duration;

use semel_core::outcome::DeferScope;
use semel_core::queue::{Delivery, Push, PushMode, Signature, TIMEOUT_RANGE};
use semel_core::records::{QueueRecord, WebhookSecret};
use semel_core::time::{Millis, Timestamp};

use super::endpoint::Endpoint;

/// The webhook of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) mode: PushMode,
    pub(super) defer_scope: DeferScope,
    /// Most deliveries under way at once.
    pub(super) in_flight: u32,
    pub(super) simpleq: bool,
    /// Whether the end of one delivery can let another go: only so many at once, of the queue or of a group, or a breaker.
    pub(super) is_gated: bool,
    timeout: Millis,
    secrets: Vec<WebhookSecret>,
}

impl Target {
    /// The webhook of a queue; `None` for a pull queue, and for a URL that cannot be called, which validation refuses. A
    /// queue that has no secret yet is about to get its first: without one its worker could not know who calls.
    pub(super) fn of(record: &QueueRecord, usual_in_flight: u32) -> Option<Self> {
        let Delivery::Push(push) = &record.config.delivery else { return None };
        if record.secrets.is_empty() {
            return None;
        }
        let Push { url, mode, timeout, signature, .. } = push;
        Some(Self {
            endpoint: Arc::new(Endpoint::parse(url).ok()?),
            mode: *mode,
            defer_scope: record.config.defer_scope,
            in_flight: in_flight(push, record.config.concurrency, usual_in_flight),
            is_gated: record.config.concurrency.is_some()
                || record.config.group_concurrency.is_some()
                || record.config.breaker.is_some(),
            simpleq: *signature == Signature::SimpleQ,
            timeout: *timeout,
            secrets: record.secrets.clone(),
        })
    }

    /// How long one call may take; a job may say so for itself.
    pub(super) fn timeout(&self, asked: Option<Millis>) -> Duration {
        let span = asked.unwrap_or(self.timeout).clamp(*TIMEOUT_RANGE.start(), *TIMEOUT_RANGE.end());
        Duration::from_millis(span.millis())
    }

    /// The secrets that sign at `now`, newest first.
    pub(super) fn secrets(&self, now: Timestamp) -> Vec<&str> {
        let lives = |secret: &&WebhookSecret| secret.expires_at.is_none_or(|end| end > now);
        self.secrets.iter().filter(lives).map(|secret| secret.secret.as_str()).collect()
    }
}

/// In ack mode a call is over long before its job is, and the queue's own limit counts jobs: calls have the usual one.
fn in_flight(push: &Push, concurrency: Option<u32>, usual: u32) -> u32 {
    match push.mode {
        PushMode::Ack => usual,
        PushMode::Standard => concurrency.unwrap_or(usual),
    }
    .max(1)
}
