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
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// One delivery, ready to be posted.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Message {
    /// A delivery, signed at `now`.
    pub(super) fn new(target: &Target, delivery: &Delivery, now: Timestamp) -> Self {
        let body =
            Bytes::from(serde_json::to_vec(&DeliveryView::of(delivery)).expect("a delivery is plain data"));
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CONTENT_TYPE, JSON);
        sign_into(&mut headers, target, delivery, now, &body);
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
