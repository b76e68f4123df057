//! What a webhook gets: the body and the headers of one delivery.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use semel_core::lease::Delivery;
use semel_core::time::Timestamp;

use super::target::Target;
use super::{sign, trace};
use crate::api::DeliveryView;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("semel/", env!("CARGO_PKG_VERSION")));
/// A job that may have been done before. In the headers, too, where a gateway can see it.
const POSSIBLY_APPLIED: HeaderName = HeaderName::from_static("semel-possibly-applied");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// One delivery, ready to be posted.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Message {
    /// A delivery, signed at `now`, of a job that may or may not have been done before.
    pub(super) fn new(target: &Target, delivery: &Delivery, possibly_applied: bool, now: Timestamp) -> Self {
        let view = DeliveryView::of(delivery, possibly_applied);
        let body = Bytes::from(serde_json::to_vec(&view).expect("a delivery is plain data"));
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CONTENT_TYPE, JSON);
        sign_into(&mut headers, target, delivery, now, &body);
        if possibly_applied {
            headers.insert(POSSIBLY_APPLIED, TRUE);
        }
        if let Some(key) = &delivery.spec.key {
            put(&mut headers, "idempotency-key", key.as_str());
        }
        let parent = delivery.spec.metadata.iter().find(|(name, _)| name == trace::METADATA_NAME);
        if let Some(header) = parent.and_then(|(_, value)| trace::child(value, delivery.token.raw())) {
            put(&mut headers, "traceparent", &header);
        }
        Self { headers, body }
    }
}

/// The Standard Webhooks headers, and that of SimpleQ where it is asked for.
fn sign_into(headers: &mut HeaderMap, target: &Target, delivery: &Delivery, now: Timestamp, body: &[u8]) {
    let id = delivery.id.to_string();
    let seconds = now.millis() / 1000;
    let secrets = target.secrets(now);
    put(headers, "webhook-id", &id);
    headers.insert(HeaderName::from_static("webhook-timestamp"), HeaderValue::from(seconds));
    if let Some(newest) = secrets.first() {
        put(headers, "webhook-signature", &sign::sign(&secrets, &id, seconds, body));
        if target.simpleq {
            put(headers, "x-simpleq-signature", &sign::sign_simpleq(newest, body));
        }
    }
}

/// A key may hold any character but control characters, so its bytes are always a header's.
fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use semel_core::gate::Gate;
    use semel_core::queue::{Delivery as By, Push, QueueConfig};
    use semel_core::records::{QueueRecord, WebhookSecret};

    use super::*;
    use crate::upkeep::stage::{START, Stage, name};

    fn target() -> Target {
        let push = Push { url: "https://example.com/hook".into(), ..Push::default() };
        let secret = WebhookSecret { secret: sign::new_secret(), created_at: START, expires_at: None };
        let record = QueueRecord {
            name: name("q"),
            config: QueueConfig { delivery: By::Push(push), ..QueueConfig::default() },
            gate: Gate::default(),
            secrets: vec![secret],
            created_at: START,
        };
        Target::of(&record, 1).unwrap()
    }

    #[tokio::test]
    async fn a_job_that_may_have_been_done_says_so_in_its_headers_and_its_body() {
        let stage = Stage::new().await;
        stage.queue("q", QueueConfig::default()).await;
        stage.publish("q", None).await;
        let delivery = stage.lease("q", None).await;
        let said = |possibly_applied| {
            let message = Message::new(&target(), &delivery, possibly_applied, START);
            let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
            (message.headers.get("semel-possibly-applied").cloned(), body["possiblyApplied"].as_bool())
        };
        assert_eq!(said(true), (Some(TRUE), Some(true)));
        assert_eq!(said(false), (None, None));
    }
}
