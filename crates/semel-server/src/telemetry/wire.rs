//! Spans as OTLP writes them in JSON: `ExportTraceServiceRequest`, numbers of traces and spans in hexadecimal, 64-bit numbers as
//! text.

use serde_json::{Value as Json, json};

use super::span::{Span, Value};

/// OTLP's number for a span that failed.
const STATUS_ERROR: u8 = 2;

/// A request with these spans, from the node of this name.
pub(super) fn encode(spans: &[Span], node: &str) -> Vec<u8> {
    let resource = [
        ("service.name", Value::Text("semel".to_owned())),
        ("service.version", Value::Text(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", Value::Text(node.to_owned())),
    ];
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource) },
        "scopeSpans": [{
            "scope": { "name": "semel", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }] });
    request.to_string().into_bytes()
}

fn span(span: &Span) -> Json {
    let mut json = json!({
        "traceId": trace_id(span.context.trace()),
        "spanId": span_id(span.context.span()),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = span_id(parent).into();
    }
    if let Some(link) = span.link {
        json["links"] = json!([{ "traceId": trace_id(link.trace()), "spanId": span_id(link.span()) }]);
    }
    if let Some(event) = span.event {
        json["events"] = json!([{ "timeUnixNano": span.end.to_string(), "name": event }]);
    }
    if let Some(error) = &span.error {
        json["status"] = json!({ "code": STATUS_ERROR, "message": error });
    }
    json
}

fn trace_id(trace: u128) -> String {
    format!("{trace:032x}")
}

fn span_id(span: u64) -> String {
    format!("{span:016x}")
}

fn attributes(list: &[(&'static str, Value)]) -> Vec<Json> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Truth(truth) => json!({ "boolValue": truth }),
    };
    list.iter().map(|(name, one)| json!({ "key": name, "value": value(one) })).collect()
}
