//! The settings of a queue by their names, such as `retry.base`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::remote::Span;

/// What the server shows with a queue that is no setting. What is not named here is taken for one: should a newer server
/// show more, then it refuses a change, and no setting is lost without a word.
pub(super) const SHOWN: [&str; 8] =
    ["name", "paused", "heldUntil", "breakerState", "createdAt", "counts", "handlerTime", "warnings"];

/// Settings that are spans, by the last part of their names.
const SPANS: [&str; 11] = [
    "window",
    "ledgerTtl",
    "base",
    "cap",
    "timeout",
    "ackTimeout",
    "leaseSeconds",
    "per",
    "cooldown",
    "completed",
    "dead",
];

/// The settings of a queue, out of all that the server shows of it.
pub(super) fn of(mut queue: Map<String, Value>) -> Map<String, Value> {
    queue.retain(|name, value| !SHOWN.contains(&name.as_str()) && !value.is_null());
    queue
}

/// Every setting with its whole name.
pub(super) fn flat(settings: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (name, value) in settings {
        match value {
            Value::Object(inner) => {
                all.extend(flat(inner).into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value)));
            }
            value => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
    all
}

/// How a value looks.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// `NAME=VALUE`: JSON, a span where the setting is one, or else text.
pub(super) fn assignment(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE, such as maxAttempts=5")?;
    let last = name.rsplit('.').next().unwrap_or(name);
    let span = SPANS.contains(&last).then(|| value.parse::<Span>().ok()).flatten();
    let value = match span {
        Some(Span(span)) => seconds(span.as_secs_f64()),
        None => serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())),
    };
    Ok((name.to_owned(), value))
}

/// Whole seconds are written as people write them.
fn seconds(span: f64) -> Value {
    if span.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a span is below 2^53 seconds"
        )]
        return Value::from(span as u64);
    }
    Value::from(span)
}

/// Changes one setting. Another way of delivery has other settings, so those of the one before go.
pub(super) fn change(settings: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), String> {
    if name == "delivery.type" && settings.get("delivery").and_then(|old| old.get("type")) != Some(&value) {
        settings.remove("delivery");
    }
    let Some((first, rest)) = name.split_once('.') else {
        if value.is_null() {
            settings.remove(name);
        } else {
            settings.insert(name.to_owned(), value);
        }
        return Ok(());
    };
    let inner = settings.entry(first).or_insert_with(|| Value::Object(Map::new()));
    match inner {
        Value::Object(inner) => change(inner, rest, value),
        other => Err(format!("{first} is {other} and has no {rest}")),
    }
}

/// Says how jobs are delivered, if that only follows from the rest: one with an address is posted there.
pub(super) fn complete(settings: &mut Map<String, Value>) {
    if let Some(Value::Object(delivery)) = settings.get_mut("delivery") {
        let kind = if delivery.contains_key("url") { "push" } else { "pull" };
        delivery.entry("type").or_insert_with(|| Value::from(kind));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_spans_or_text() {
        for (text, expected) in [
            ("maxAttempts=5", json!(5)),
            ("window=72h", json!(259_200)),
            ("retry.base=250ms", json!(0.25)),
            ("requireKey=true", json!(true)),
            ("keyPattern=order-[0-9]+", json!("order-[0-9]+")),
            ("keyPattern=7d", json!("7d")),
            ("breaker=null", Value::Null),
            ("delivery.url=http://x/?a=b", json!("http://x/?a=b")),
        ] {
            assert_eq!(assignment(text).unwrap().1, expected, "{text}");
        }
        assert!(assignment("maxAttempts").is_err());
    }

    #[test]
    fn a_change_keeps_the_rest() {
        let queue = json!({ "name": "q", "maxAttempts": 3, "rate": null, "retry": { "base": 1, "cap": 9 },
            "delivery": { "type": "pull", "leaseSeconds": 60 } });
        let Value::Object(queue) = queue else { panic!("an object") };
        let mut settings = of(queue);
        for (name, value) in
            [("retry.base", json!(2)), ("rate.count", json!(5)), ("maxAttempts", Value::Null)]
        {
            change(&mut settings, name, value).unwrap();
        }
        let kept = json!({ "type": "pull", "leaseSeconds": 60 });
        let expected = json!({ "rate": { "count": 5 }, "retry": { "base": 2, "cap": 9 }, "delivery": kept });
        assert_eq!(Value::Object(settings.clone()), expected);
        change(&mut settings, "delivery.type", json!("push")).unwrap();
        assert_eq!(settings["delivery"], json!({ "type": "push" }), "a webhook has no lease");
        assert!(change(&mut settings, "delivery.type.x", json!(1)).is_err());
    }

    #[test]
    fn how_jobs_are_delivered_follows_from_the_rest() {
        for (name, kind) in [("delivery.url", "push"), ("delivery.leaseSeconds", "pull")] {
            let mut settings = Map::new();
            change(&mut settings, name, json!(30)).unwrap();
            complete(&mut settings);
            assert_eq!(settings["delivery"]["type"], kind, "{name}");
        }
    }
}
