//! The small records a store keeps beside jobs: queues with their secrets, schedules, API keys.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::name::{QueueName, check_text};
use crate::queue::QueueConfig;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::violation::Violations;

/// Most secrets of one queue. A rotation needs two; more of them at once are a mistake, and each signs every request.
pub const SECRETS_MAX: usize = 8;
/// Longest webhook secret, in characters: several times what any signature needs.
pub const SECRET_MAX: usize = 256;

/// A secret that signs the requests to a queue's webhook. While one is replaced there are several, and each signs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSecret {
    /// The secret itself: signing needs it, so unlike an API key's it is kept.
    pub secret: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops signing.
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for WebhookSecret {
    /// Without the secret: what is printed for debugging ends in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSecret")
            .field("secret", &format_args!("[secret]"))
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

/// Checks the secrets of a queue as a whole. What is wrong is told without telling a secret.
pub fn check_secrets(secrets: &[WebhookSecret]) -> Result<(), Violations> {
    let mut wrong = Violations::default();
    wrong.require(secrets.len() <= SECRETS_MAX, "secrets", || {
        format!("must be at most {SECRETS_MAX}, got {}", secrets.len())
    });
    for (i, WebhookSecret { secret, .. }) in secrets.iter().enumerate() {
        let printable = secret.bytes().all(|b| (b' '..=b'~').contains(&b));
        wrong.require(
            (1..=SECRET_MAX).contains(&secret.len()) && printable,
            &format!("secrets[{i}]"),
            || format!("must be 1 to {SECRET_MAX} printable ASCII characters"),
        );
    }
    wrong.into_result()
}

/// A queue as a store returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueRecord {
    /// Its name.
    pub name: QueueName,
    /// How it behaves.
    pub config: QueueConfig,
    /// Pause, hold, breaker and rate as they stand.
    pub gate: Gate,
    /// What signs the requests to its webhook.
    pub secrets: Vec<WebhookSecret>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A schedule: publish to a queue whenever the expression says so. Each tick is published under a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// Its name, unique in the store.
    pub name: String,
    /// The queue it publishes to.
    pub queue: QueueName,
    /// The cron expression.
    pub cron: String,
    /// The time zone it is read in.
    pub zone: String,
    /// The payload of each job: JSON text.
    pub payload: String,
    /// The next tick that has not been published yet.
    pub next_at: Timestamp,
}

/// What an API key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Publish jobs.
    Publish,
    /// Lease and settle.
    Work,
    /// Read jobs, keys and statistics.
    Read,
    /// Change queues and schedules, replay, cancel, release keys.
    Manage,
    /// Everything, API keys included.
    Admin,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRecord {
    /// Its id, unique in the store.
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal; the secret itself is never stored.
    pub hash: String,
    /// What people call it.
    pub label: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// Which queues, as globs.
    pub queues: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl ScheduleRecord {
    /// Moves on to the next tick, if it still stands at `from`. Of several nodes that publish a tick only one moves on.
    pub fn advance(&mut self, from: Timestamp, to: Timestamp) -> Result<(), Refusal> {
        if self.next_at != from {
            return Err(Refusal::Outrun { kind: "schedule", name: self.name.clone() });
        }
        self.next_at = to;
        Ok(())
    }

    /// Checks what can be checked without a calendar; cron and zone are parsed where they are used.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require(check_text("name", &self.name).is_ok(), "name", || {
            "must be 1 to 255 printable characters".into()
        });
        wrong.require(!self.cron.trim().is_empty(), "cron", || "must not be empty".into());
        wrong.require(!self.zone.trim().is_empty(), "zone", || "must name a time zone, such as UTC".into());
        wrong.require(crate::Payload::from_json(self.payload.clone()).is_ok(), "payload", || {
            "must be JSON".into()
        });
        wrong.into_result()
    }
}

impl ApiKeyRecord {
    /// Notes a use. Nodes report late and out of order, so only a later time counts.
    pub fn touch(&mut self, at: Timestamp) {
        self.last_used_at = self.last_used_at.max(Some(at));
    }

    /// Checks the record as a whole.
    pub fn validate(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        wrong.require(check_text("id", &self.id).is_ok(), "id", || {
            "must be 1 to 255 printable characters".into()
        });
        let hex = self.hash.len() == 64 && self.hash.bytes().all(|b| b.is_ascii_hexdigit());
        wrong.require(hex, "hash", || "must be a SHA-256 in hexadecimal".into());
        wrong.require(!self.scopes.is_empty(), "scopes", || "must name at least one scope".into());
        wrong.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn secret(text: &str) -> WebhookSecret {
        WebhookSecret { secret: text.into(), created_at: at(1), expires_at: None }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let text = format!("{:?} {:#?}", secret("whsec_123"), vec![secret("whsec_123")]);
        assert!(text.contains("[secret]") && !text.contains("whsec"), "{text}");
        let told = check_secrets(&[secret("whsec\n123")]).unwrap_err().to_string();
        assert!(!told.contains("whsec"), "{told}");
    }

    #[test]
    fn a_schedule_moves_on_only_from_where_it_stands() {
        let mut schedule = ScheduleRecord {
            name: "nightly".into(),
            queue: QueueName::try_from("q").unwrap(),
            cron: "0 3 * * *".into(),
            zone: "UTC".into(),
            payload: "1".into(),
            next_at: at(10),
        };
        assert_eq!(schedule.advance(at(10), at(20)), Ok(()));
        for wrong in [10, 19, 21] {
            let refusal = schedule.advance(at(wrong), at(30)).unwrap_err();
            assert_eq!((refusal.code(), schedule.next_at), ("outrun", at(20)));
        }
    }

    #[test]
    fn secrets_are_few_short_and_printable() {
        let fields = |secrets: &[WebhookSecret]| {
            let found = check_secrets(secrets).err();
            found.map(|v| v.iter().map(|v| v.field.clone()).collect::<Vec<_>>()).unwrap_or_default()
        };
        let longest = "s".repeat(SECRET_MAX);
        assert_eq!(fields(&vec![secret(&longest); SECRETS_MAX]), [""; 0]);
        assert_eq!(fields(&vec![secret(" ~"); SECRETS_MAX + 1]), ["secrets"]);
        let bad = [secret(""), secret("ok"), secret(&(longest + "s")), secret("ä"), secret("\u{7f}")];
        assert_eq!(fields(&bad), ["secrets[0]", "secrets[2]", "secrets[3]", "secrets[4]"]);
    }
}
