//! One publish, as the application means it.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::overrides::overrides;
use crate::time;

/// What a generated key begins with, so that people see that it says nothing about the business.
const GENERATED: &str = "gen-";

/// One publish: what, where to, and under which key.
///
/// The key is there from the start. [`Publish::new`] generates one; [`Publish::key`] puts the business's own in its place.
/// Whoever sends this value again, the client's retries or the application's, sends the same key, so it is published
/// once. Two values are two publishes: make one per event, *outside* of any loop that tries again.
///
/// A key of the business's own is better where there is one (`order-17`): it also holds when the process that made this
/// value died and another one makes it again.
///
/// ```
/// use semel_client::Publish;
///
/// let wish = Publish::new("orders", &serde_json::json!({ "order": 17 }))?;
/// assert_eq!(wish.idempotency_key(), wish.clone().idempotency_key());
/// let named = wish.key("order-17");
/// assert_eq!(named.idempotency_key(), "order-17");
/// # Ok::<(), semel_client::NotJson>(())
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Publish {
    #[serde(skip)]
    queue: String,
    payload: Box<RawValue>,
    idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

/// A payload is not JSON.
#[derive(Debug, thiserror::Error)]
#[error("this is not JSON, and only JSON can be published: {0}")]
pub struct NotJson(#[source] serde_json::Error);

impl Publish {
    /// To be run at once.
    pub fn new(queue: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Result<Self, NotJson> {
        let payload = serde_json::value::to_raw_value(payload).map_err(NotJson)?;
        Ok(Self::raw(queue.into(), payload))
    }

    /// The same with a payload that is JSON text already, which is kept byte for byte.
    pub fn of_json(queue: impl Into<String>, payload: impl Into<String>) -> Result<Self, NotJson> {
        let payload = RawValue::from_string(payload.into()).map_err(NotJson)?;
        Ok(Self::raw(queue.into(), payload))
    }

    fn raw(queue: String, payload: Box<RawValue>) -> Self {
        let idempotency_key = format!("{GENERATED}{:032x}", rand::random::<u128>());
        Self { queue, payload, idempotency_key, group: None, options: Map::new() }
    }

    /// The key that names the business event, instead of a generated one. A later publish with it gets this one's job.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = key.into();
        self
    }

    /// Run this long after it was published; whole seconds, rounded up.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.option("delay", json!(time::whole_seconds(delay)))
    }

    /// Run at this time.
    #[must_use]
    pub fn run_at(self, at: SystemTime) -> Self {
        self.option("runAt", json!(time::text(at)))
    }

    /// -100 to 100, higher first.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.option("priority", json!(priority))
    }

    /// The group, for order and fairness.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// One more entry that is delivered with the job, and searchable. A name that is there already gets the new value.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let entries = self.options.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(entries) = entries {
            entries.insert(name.into(), Value::String(value.into()));
        }
        self
    }

    /// The W3C trace context of the publisher: its trace goes on with the job, and every worker of it gets a context of the same
    /// trace ([`Delivery::traceparent`](crate::Delivery::traceparent)).
    #[must_use]
    pub fn traceparent(self, context: impl Into<String>) -> Self {
        self.metadata("traceparent", context)
    }

    /// Any other member of a publish, named as in the HTTP API. For what carries publishes along, such as an outbox.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: Value) -> Self {
        self.options.insert(name.into(), value);
        self
    }

    /// Where it goes.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Its key, given or generated.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Its group.
    pub fn group_name(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// The payload, as JSON text.
    pub fn payload(&self) -> &str {
        self.payload.get()
    }

    /// What it asks for besides payload, key and group, named as in the HTTP API.
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }
}

overrides!(Publish);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_that_of_the_api_and_the_payload_is_kept_byte_for_byte() {
        let wish = Publish::of_json("orders", r#"{"b": 1.10, "a": "\u00e9"}"#)
            .unwrap()
            .key("order-17")
            .group("tenant 4")
            .delay(Duration::from_millis(1500))
            .metadata("a", "1")
            .traceparent("00-1-2-01");
        let body = serde_json::to_string(&wish).unwrap();
        assert_eq!(
            body,
            r#"{"payload":{"b": 1.10, "a": "\u00e9"},"idempotencyKey":"order-17","group":"tenant 4","delay":2,"metadata":{"a":"1","traceparent":"00-1-2-01"}}"#
        );
    }

    #[test]
    fn each_wish_has_a_key_of_its_own_and_keeps_it() {
        let (one, two) = (Publish::new("q", &1).unwrap(), Publish::new("q", &1).unwrap());
        assert_ne!(one.idempotency_key(), two.idempotency_key());
        assert_eq!(one.clone().priority(3).idempotency_key(), one.idempotency_key());
    }

    #[test]
    fn what_is_no_json_is_refused_at_once() {
        let error = Publish::of_json("q", "{").unwrap_err();
        assert!(error.to_string().contains("not JSON"), "{error}");
    }
}
