//! One publish, as it was asked for on the command line.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde::Serialize;
use serde_json::value::RawValue;

use super::PublishArgs;
use crate::failure::Failure;
use crate::remote::Span;

/// A publish as the API takes it. The payload is kept byte for byte.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'a str, &'a str>,
}

impl<'a> Body<'a> {
    pub(super) fn of(args: &'a PublishArgs) -> Result<Self, Failure> {
        Ok(Self {
            payload: payload(args.payload.as_deref().unwrap_or_default())?,
            // Made here, above every retry.
            idempotency_key: args.key.clone().or_else(|| args.generate_key.then(new_key)),
            delay: args.delay.map(whole_seconds),
            run_at: args.run_at.as_deref(),
            priority: args.priority,
            group: args.group.as_deref(),
            metadata: args.meta.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        })
    }

    pub(super) fn has_key(&self) -> bool {
        self.idempotency_key.is_some()
    }

    pub(super) fn json(&self) -> Result<Vec<u8>, Failure> {
        serde_json::to_vec(self)
            .map_err(|error| Failure::Broken(format!("a publish cannot be written: {error}")))
    }
}

/// Whole seconds, rounded up: a job that was to wait must not run early.
fn whole_seconds(span: Span) -> u64 {
    span.0.as_secs() + u64::from(span.0.subsec_nanos() > 0)
}

/// A key that says nothing about the business, and shows it.
pub(super) fn new_key() -> String {
    format!("gen-{:032x}", rand::random::<u128>())
}

/// The text in an argument, in the file behind an @, or on stdin.
pub(in crate::cli) fn text_of(argument: &str) -> Result<String, Failure> {
    if argument == "-" {
        return io::read_to_string(io::stdin()).map_err(Failure::io("read stdin"));
    }
    match argument.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).map_err(Failure::io(format!("read {file}"))),
        None => Ok(argument.to_owned()),
    }
}

/// A payload on the command line.
pub(in crate::cli) fn payload(argument: &str) -> Result<Box<RawValue>, Failure> {
    let text = text_of(argument)?.trim().to_owned();
    RawValue::from_string(text).map_err(|error| {
        let words = format!("the payload is not JSON: {error}; a text needs quotes of its own: '\"hello\"'");
        Failure::Usage(words)
    })
}

/// `NAME=VALUE`.
pub(in crate::cli) fn entry(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
