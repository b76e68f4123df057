//! What a webhook gets: the body and the headers of one delivery.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use semel_core::key::Key;
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

/// What a webhook is told about a delivery besides its body.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The job: the same on every attempt.
    pub id: &'a str,
    /// The sender's key.
    pub key: Option<&'a str>,
    /// The trace of the publish, as its metadata has it.
    pub traceparent: Option<&'a str>,
    /// The token of the delivery, as a number.
    pub token: u64,
    /// Whether the job may have been done before.
    pub possibly_applied: bool,
    /// The body.
    pub body: &'a [u8],
}

/// What signs a delivery.
#[derive(Debug, Clone)]
pub struct Seal<'a> {
    /// The secrets, newest first.
    pub secrets: Vec<&'a str>,
    /// Whether SimpleQ's signature is sent, too.
    pub simpleq: bool,
    /// When, in seconds since 1970.
    pub seconds: u64,
}

/// The headers of a delivery. Whoever brings jobs to a webhook, the server or `semel listen`, sends these.
pub fn headers(envelope: &Envelope<'_>, seal: &Seal<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(USER_AGENT, AGENT);
    headers.insert(CONTENT_TYPE, JSON);
    sign_into(&mut headers, envelope, seal);
    if envelope.possibly_applied {
        headers.insert(POSSIBLY_APPLIED, TRUE);
    }
    if let Some(key) = envelope.key {
        put(&mut headers, "idempotency-key", key);
    }
    if let Some(header) = envelope.traceparent.and_then(|parent| trace::child(parent, envelope.token)) {
        put(&mut headers, "traceparent", &header);
    }
    headers
}

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
        let parent = delivery.spec.metadata.iter().find(|(name, _)| name == trace::METADATA_NAME);
        let envelope = Envelope {
            id: &delivery.id.to_string(),
            key: delivery.spec.key.as_ref().map(Key::as_str),
            traceparent: parent.map(|(_, value)| value.as_str()),
            token: delivery.token.raw(),
            possibly_applied,
            body: &body,
        };
        let seconds = now.millis() / 1000;
        let seal = Seal { secrets: target.secrets(now), simpleq: target.simpleq, seconds };
        Self { headers: headers(&envelope, &seal), body }
    }
}

/// The Standard Webhooks headers, and that of SimpleQ where it is asked for.
fn sign_into(headers: &mut HeaderMap, envelope: &Envelope<'_>, seal: &Seal<'_>) {
    let Envelope { id, body, .. } = envelope;
    put(headers, "webhook-id", id);
    headers.insert(HeaderName::from_static("webhook-timestamp"), HeaderValue::from(seal.seconds));
    if let Some(newest) = seal.secrets.first() {
        put(headers, "webhook-signature", &sign::sign(&seal.secrets, id, seal.seconds, body));
        if seal.simpleq {
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
