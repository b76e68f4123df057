//! A job on its way to a worker.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::time;

/// A delivery: a job, and the lease that allows this worker to settle it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Delivery {
    /// The job; the same for every delivery of it. Not a key for effects: that is [`Delivery::key`].
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// The payload, byte for byte; [`Delivery::payload`] reads it.
    #[serde(rename = "payload")]
    pub raw_payload: Option<Box<RawValue>>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// How often the job was deferred.
    #[serde(default)]
    pub defer_count: u32,
    /// When it was published.
    #[serde(deserialize_with = "time::read", serialize_with = "time::write")]
    pub created_at: SystemTime,
    /// The sender's key.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The token that settles this delivery.
    pub lease: String,
    /// The name of this delivery, for logs.
    pub delivery_id: String,
    /// The group.
    #[serde(default)]
    pub group: Option<String>,
    /// What was published with the job.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// When the lease ends, by the server's clock, unless it is extended.
    #[serde(deserialize_with = "time::read", serialize_with = "time::write")]
    pub deadline: SystemTime,
    /// The W3C trace context of this delivery, if its publish had one: the parent of what the worker does, and what it passes on
    /// to those it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whether the job may have been done before without the server's knowing: it lost what it had answered, by a failover
    /// or a restored backup. A ledger knows better; whoever keeps none should look before doing it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub possibly_applied: bool,
}

impl Delivery {
    /// The payload.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.raw_payload.as_deref().map_or("null", RawValue::get))
    }

    /// What an effect of this job is to be recorded under: the sender's key, which is the same however often the event is
    /// published or delivered. A job that was published without one has only its id.
    pub fn key(&self) -> &str {
        self.idempotency_key.as_deref().unwrap_or(&self.id)
    }

    /// The lease's token as a number. A later delivery of the same job has a higher one, so it can fence effects.
    pub fn token(&self) -> Option<u64> {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        const WIDTH: usize = 13;
        let digits = self.lease.strip_prefix("lse_").filter(|digits| digits.len() == WIDTH)?;
        digits.bytes().try_fold(0_u64, |value, byte| {
            let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
            value.checked_mul(32)?.checked_add(u64::try_from(digit).ok()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ids::Token;

    use super::*;

    fn with(lease: &str, key: &str) -> Delivery {
        let text = format!(
            r#"{{"id":"job_1","queue":"q","payload":{{"n": 1.0}},"attempt":1,"maxAttempts":5,"deferCount":0,
                "createdAt":"2026-11-15T12:00:00.000Z","idempotencyKey":{key},"lease":"{lease}","deliveryId":"dlv_1",
                "group":null,"metadata":{{}},"deadline":"2026-11-15T12:00:30.000Z","new":1}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn tokens_are_the_servers_numbers() {
        for raw in [0, 1, 31, 32, 1 << 40, u64::MAX] {
            assert_eq!(with(&Token::from_raw(raw).to_string(), "null").token(), Some(raw));
        }
        for odd in ["", "lse_", "lse_zzzzzzzzzzzzz", "job_0000000000001"] {
            assert_eq!(with(odd, "null").token(), None, "{odd}");
        }
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let mut delivery = with("lse_1", "\"order-17\"");
        let text = serde_json::to_string(&delivery).unwrap();
        let expected = r#"{"id":"job_1","queue":"q","payload":{"n": 1.0},"attempt":1,"maxAttempts":5,"deferCount":0,"createdAt":"2026-11-15T12:00:00.000Z","idempotencyKey":"order-17","lease":"lse_1","deliveryId":"dlv_1","group":null,"metadata":{},"deadline":"2026-11-15T12:00:30.000Z"}"#;
        assert_eq!(text, expected);
        delivery.traceparent = Some("00-1-2-01".to_owned());
        let text = serde_json::to_string(&delivery).unwrap();
        assert!(text.ends_with(r#".000Z","traceparent":"00-1-2-01"}"#), "{text}");
    }

    #[test]
    fn the_key_is_the_senders_and_the_payload_is_kept() {
        let delivery = with("lse_1", "\"order-17\"");
        assert_eq!(delivery.key(), "order-17");
        assert_eq!(with("lse_1", "null").key(), "job_1");
        assert_eq!(delivery.raw_payload.as_ref().unwrap().get(), r#"{"n": 1.0}"#);
    }
}
