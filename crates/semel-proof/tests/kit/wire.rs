//! What the API says, as the history tells it.

use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::payload::Payload;
use semel_core::time::Timestamp;
use semel_proof::history::{Answer, Delivered};
use semel_proof::workload::digest;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::Client;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Published {
    pub(crate) id: String,
    created_at: String,
    pub(crate) deduplicated: bool,
    payload_matches: bool,
}

impl Published {
    pub(crate) fn id(&self) -> JobId {
        self.id.parse().expect("the id of a job")
    }

    pub(crate) fn answer(&self) -> Answer {
        let (deduplicated, matches) = (self.deduplicated, self.payload_matches);
        Answer::Published { id: self.id(), created_at: time(&self.created_at), deduplicated, matches }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Leased {
    pub(crate) jobs: Vec<Delivery>,
}

/// The body of a delivery, by lease or by webhook.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    id: String,
    pub(crate) queue: String,
    payload: Box<RawValue>,
    attempt: u32,
    max_attempts: u32,
    defer_count: u32,
    idempotency_key: Option<String>,
    lease: String,
    deadline: String,
    /// Whether it may have been done before, by its own account.
    #[serde(default)]
    pub(crate) possibly_applied: bool,
}

impl Delivery {
    pub(crate) fn delivered(&self) -> Delivered {
        let payload = Payload::from_parsed(self.payload.get().to_owned());
        Delivered {
            id: self.id.parse().expect("the id of a job"),
            token: self.token(),
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            deferrals: self.defer_count,
            deadline: time(&self.deadline),
            digest: digest(&payload),
            key: self.idempotency_key.as_deref().map(|key| Key::try_from(key).expect("a key")),
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.lease.parse().expect("a token")
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Settled {
    status: Option<String>,
    due: Option<String>,
    deadline: Option<String>,
}

impl Settled {
    /// The answer. A repeat looks like the first, so only the caller can tell whether it may be one.
    pub(crate) fn answer(&self, repeated: bool) -> Answer {
        match (&self.status, &self.deadline) {
            (Some(status), None) => {
                Answer::Settled { state: state(status), due: self.due.as_deref().map(time), repeated }
            }
            (None, Some(deadline)) => Answer::Extended { until: time(deadline) },
            _ => panic!("neither the answer to a settle nor to an extension: {self:?}"),
        }
    }
}

fn state(name: &str) -> State {
    State::ALL.into_iter().find(|state| state.name() == name).unwrap_or_else(|| panic!("no state: {name}"))
}

pub(crate) fn time(text: &str) -> Timestamp {
    let time: jiff::Timestamp = text.parse().unwrap_or_else(|e| panic!("{text:?} is no time: {e}"));
    Timestamp::from_millis(u64::try_from(time.as_millisecond()).expect("after 1970"))
}

/// When a server says that it wrote a line of its log, which is JSON where it goes to a file.
pub(crate) fn logged_at(line: &str) -> Timestamp {
    let line: serde_json::Value =
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?} is no JSON: {e}"));
    time(line["timestamp"].as_str().expect("a line has a time"))
}

/// Jobs that are not finished, by the counters of a server; nothing if it does not say.
pub(crate) fn unfinished(client: &mut Client) -> Option<u64> {
    let answer = client.get("/v1/stats").ok().filter(|answer| answer.status == 200)?;
    let stats = answer.json();
    let queues = stats["queues"].as_object()?.values();
    let open = ["pending", "processing", "awaitingAck"];
    Some(queues.flat_map(|counts| open.map(|state| counts[state].as_u64().unwrap_or(0))).sum())
}
