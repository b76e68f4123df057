//! Arrays of the rows that only this store's own writing knows.

use semel_core::key::{Fingerprint, Key};
use semel_store::working::Tally;

use crate::row::columns;

columns! {
    /// Keys, each with one job.
    KeyIds {
        queue: i32 => INT4_ARRAY,
        key: String => TEXT_ARRAY,
        id: i64 => INT8_ARRAY,
    }
}

columns! {
    /// Jobs that lose their payload.
    StrippedColumns {
        id: i64 => INT8_ARRAY,
        fingerprint: Vec<u8> => BYTEA_ARRAY,
    }
}

columns! {
    /// How counts changed.
    TallyColumns {
        queue: i32 => INT4_ARRAY,
        unfinished: i64 => INT8_ARRAY,
        completed: i64 => INT8_ARRAY,
        dead: i64 => INT8_ARRAY,
        cancelled: i64 => INT8_ARRAY,
    }
}

columns! {
    /// Schedules, API keys and replays; without a body they are gone.
    RecordColumns {
        kind: &'static str => TEXT_ARRAY,
        name: String => TEXT_ARRAY,
        body: Option<String> => TEXT_ARRAY,
    }
}

columns! {
    /// Queues whose gate, settings or secrets changed; the latter two only if they did.
    QueueColumns {
        id: i32 => INT4_ARRAY,
        config: Option<String> => TEXT_ARRAY,
        secrets: Option<String> => TEXT_ARRAY,
        gate: String => TEXT_ARRAY,
        free: bool => BOOL_ARRAY,
        paused: bool => BOOL_ARRAY,
    }
}

impl KeyIds {
    /// Adds a job of a key.
    pub(crate) fn push(&mut self, queue: i32, key: &Key, id: i64) {
        self.queue.push(queue);
        self.key.push(key.to_string());
        self.id.push(id);
    }
}

impl StrippedColumns {
    /// Adds a job.
    pub(crate) fn push(&mut self, id: i64, fingerprint: Fingerprint) {
        self.id.push(id);
        self.fingerprint.push(fingerprint.0.to_be_bytes().into());
    }
}

impl TallyColumns {
    /// Adds what changed of a queue's counts.
    pub(crate) fn push(&mut self, queue: i32, tally: Tally) {
        self.queue.push(queue);
        self.unfinished.push(tally.unfinished);
        self.completed.push(tally.completed);
        self.dead.push(tally.dead);
        self.cancelled.push(tally.cancelled);
    }
}

impl RecordColumns {
    /// Adds a record.
    pub(crate) fn push(&mut self, kind: &'static str, name: &str, body: Option<String>) {
        self.kind.push(kind);
        self.name.push(name.to_owned());
        self.body.push(body);
    }
}
