//! What has become of a job, as far as it has no columns of its own: JSON objects, one after the other.
//!
//! ```json
//! {"replays":1,"replayedAt":1800000000000,"historyDropped":0,
//!  "settled":{"token":1099511627777,"verb":"ack"},"result":"{\"ok\":true}",
//!  "effect":{"outcome":"applied","key":"charge-1"},"released":"a mistake",
//!  "history":[{"number":1,"status":"success","error":"why not","statusCode":200,"at":1800000000000,
//!              "duration":250,"effect":{"outcome":"applied","key":"charge-1"}}]}
//! ```
//!
//! Times and spans are milliseconds. A member that says nothing is left out, and a job of which nothing is to be said has no
//! text at all. `result` is JSON in a string, because it must come back byte for byte.
//!
//! Where there are several objects, a later one goes on from the earlier: its members replace theirs, its `history` is added
//! to theirs. So a function in SQL can add what a settle did without reading what was there before, which it could not do
//! safely: PostgreSQL refuses to look into JSON that has `\u0000` in it. This program always writes one object.
//!
//! One member is such a function's alone: `{"revived":1800000000000}` says that the job was given another life then.

use bytes::Bytes;
use semel_core::ids::Token;
use semel_core::job::{Attempt, AttemptStatus, HISTORY_MAX, LastSettle, Progress};
use semel_core::outcome::{Effect, Receipt};
use semel_core::payload::Payload;
use semel_core::settle::Verb;
use semel_core::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rest {
    #[serde(skip_serializing)]
    revived: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replays: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_dropped: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled: Option<Settled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Receipted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Settled {
    token: Token,
    #[serde(with = "VerbName")]
    verb: Verb,
}

/// The names of [`Verb`] as they are stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Verb", rename_all = "camelCase")]
enum VerbName {
    Ack,
    Nack,
    Defer,
    Receive,
    Expire,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipted {
    outcome: Effect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    number: u32,
    status: AttemptStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Receipted>,
}

/// Writes what has no column of its own; nothing if there is nothing to say.
pub(super) fn write(progress: &Progress) -> Option<String> {
    let rest = Rest {
        revived: None,
        replays: Some(progress.replays).filter(|&replays| replays > 0),
        replayed_at: progress.replayed_at,
        history_dropped: Some(progress.history_dropped).filter(|&dropped| dropped > 0),
        settled: progress.settled.map(|last| Settled { token: last.token, verb: last.verb }),
        result: progress.result.as_ref().map(payload_text),
        effect: progress.effect.as_ref().map(write_receipt),
        released: progress.released.clone(),
        history: progress.history.iter().map(write_attempt).collect(),
    };
    let text = serde_json::to_string(&rest).expect("text and numbers always serialise");
    Some(text).filter(|text| text != "{}")
}

/// JSON is Unicode, and a result has been read as JSON before it became one.
fn payload_text(payload: &Payload) -> String {
    String::from_utf8_lossy(payload.bytes()).into_owned()
}

fn write_attempt(attempt: &Attempt) -> Entry {
    Entry {
        number: attempt.number,
        status: attempt.status,
        error: attempt.error.clone(),
        status_code: attempt.status_code,
        at: attempt.at,
        duration: attempt.duration,
        effect: attempt.effect.as_ref().map(write_receipt),
    }
}

fn write_receipt(receipt: &Receipt) -> Receipted {
    Receipted { outcome: receipt.outcome, key: receipt.key.clone() }
}

/// Reads what has no column of its own. The caller fills in the rest.
pub(super) fn read(text: Option<&str>) -> Result<Progress, String> {
    let mut progress = Progress::fresh(Timestamp::default());
    for rest in serde_json::Deserializer::from_str(text.unwrap_or_default()).into_iter::<Rest>() {
        add(&mut progress, rest.map_err(|e| format!("its progress cannot be read: {e}"))?);
    }
    let excess = progress.history.len().saturating_sub(HISTORY_MAX);
    progress.history.drain(..excess);
    let excess = u32::try_from(excess).unwrap_or(u32::MAX);
    progress.history_dropped = progress.history_dropped.saturating_add(excess);
    Ok(progress)
}

/// Goes on from what earlier objects said.
fn add(progress: &mut Progress, rest: Rest) {
    if let Some(revived) = rest.revived {
        progress.replays = progress.replays.saturating_add(1);
        progress.replayed_at = Some(revived);
        progress.settled = None;
    }
    progress.replays = rest.replays.unwrap_or(progress.replays);
    progress.replayed_at = rest.replayed_at.or(progress.replayed_at);
    progress.history_dropped = rest.history_dropped.unwrap_or(progress.history_dropped);
    let settled = rest.settled.map(|last| LastSettle { token: last.token, verb: last.verb });
    progress.settled = settled.or(progress.settled);
    if let Some(result) = rest.result {
        progress.result = Some(Payload::from_parsed(Bytes::from(result)));
    }
    if let Some(effect) = rest.effect {
        progress.effect = Some(read_receipt(effect));
    }
    if let Some(reason) = rest.released {
        progress.released = Some(reason);
    }
    progress.history.extend(rest.history.into_iter().map(read_attempt));
}

fn read_attempt(entry: Entry) -> Attempt {
    Attempt {
        number: entry.number,
        status: entry.status,
        error: entry.error,
        status_code: entry.status_code,
        at: entry.at,
        duration: entry.duration,
        effect: entry.effect.map(read_receipt),
    }
}

fn read_receipt(receipt: Receipted) -> Receipt {
    Receipt { outcome: receipt.outcome, key: receipt.key }
}
