//! The record of what was published: written once, never rewritten until it is stripped.

use bytes::Bytes;
use semel_core::ids::JobId;
use semel_core::job::{JobSpec, Overrides, Priority};
use semel_core::key::{Fingerprint, Key};
use semel_core::name::{Group, QueueName};
use semel_core::payload::Payload;
use semel_core::time::{Millis, Timestamp};

use super::wire::{Damage, Reader, begin, put_bytes, put_time, put_varint, seal};

const HAS_KEY: u8 = 1;
const HAS_GROUP: u8 = 2;
const GATED: u8 = 4;
const HAS_OVERRIDES: u8 = 8;
const HAS_METADATA: u8 = 16;
const DELAYED: u8 = 32;
const STRIPPED: u8 = 64;
const HAS_PRIORITY: u8 = 128;

/// Writes a job's record. The queue is a number here: its name is in the queue's own row.
pub(crate) fn encode_job(out: &mut Vec<u8>, id: JobId, queue_no: u32, spec: &JobSpec) {
    begin(out);
    out.push(flags_of(spec));
    put_varint(out, u64::from(queue_no));
    put_time(out, spec.created_at, id.time());
    if spec.run_at != spec.created_at {
        put_time(out, spec.run_at, spec.created_at);
    }
    if spec.priority != Priority::default() {
        out.push(spec.priority.get().cast_unsigned());
    }
    if let Some(key) = &spec.key {
        put_bytes(out, key.as_str().as_bytes());
    }
    if let Some(group) = &spec.group {
        put_bytes(out, group.as_str().as_bytes());
    }
    if !spec.overrides.is_empty() {
        // Rare and small, so the readable form will do; a plain struct of numbers always serialises.
        put_bytes(out, &serde_json::to_vec(&spec.overrides).expect("overrides are plain numbers"));
    }
    if !spec.metadata.is_empty() {
        put_varint(out, spec.metadata.len() as u64);
        for (name, value) in &spec.metadata {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
    }
    match &spec.payload {
        Some(payload) => out.extend_from_slice(payload.bytes()),
        // The digest is stored only when there is no payload left to compute it from.
        None => out.extend_from_slice(&spec.fingerprint.0.to_le_bytes()),
    }
    seal(out, id.raw());
}

fn flags_of(spec: &JobSpec) -> u8 {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    flag(spec.key.is_some(), HAS_KEY)
        | flag(spec.group.is_some(), HAS_GROUP)
        | flag(spec.gated, GATED)
        | flag(!spec.overrides.is_empty(), HAS_OVERRIDES)
        | flag(!spec.metadata.is_empty(), HAS_METADATA)
        | flag(spec.run_at != spec.created_at, DELAYED)
        | flag(spec.payload.is_none(), STRIPPED)
        | flag(spec.priority != Priority::default(), HAS_PRIORITY)
}

/// The head of a job's record, checked, with the rest still to be read.
#[derive(Debug)]
pub(crate) struct JobRow<'a> {
    pub(crate) queue_no: u32,
    pub(crate) plain: bool,
    pub(crate) key: Option<&'a str>,
    flags: u8,
    created_at: Timestamp,
    run_at: Timestamp,
    priority: Priority,
    rest: Reader<'a>,
}

/// Checks a record and reads its head: enough to say whose it is, without copying anything.
pub(crate) fn decode_job(record: &[u8], id: JobId) -> Result<JobRow<'_>, Damage> {
    let mut rest = Reader::open(record, id.raw())?;
    let flags = rest.byte()?;
    let queue_no = rest.small()?;
    let created_at = rest.time(id.time())?;
    let run_at = if flags & DELAYED != 0 { rest.time(created_at)? } else { created_at };
    let priority = if flags & HAS_PRIORITY != 0 {
        Priority::new(rest.byte()?.cast_signed()).ok_or(Damage::Field("priority"))?
    } else {
        Priority::default()
    };
    let key = if flags & HAS_KEY != 0 { Some(rest.text()?) } else { None };
    let plain = flags & (DELAYED | HAS_PRIORITY | GATED) == 0;
    Ok(JobRow { queue_no, plain, key, flags, created_at, run_at, priority, rest })
}

/// Whether a record has been stripped, from its second byte; the record must have been checked before.
pub(crate) fn is_stripped(record: &[u8]) -> bool {
    record.get(1).is_some_and(|flags| flags & STRIPPED != 0)
}

impl JobRow<'_> {
    /// Reads the rest of the record.
    pub(crate) fn into_spec(mut self, queue: QueueName) -> Result<JobSpec, Damage> {
        let group = self.read_group()?;
        let overrides = self.read_overrides()?;
        let metadata = self.read_metadata()?;
        let key = self.key.map(Key::try_from).transpose().map_err(|_| Damage::Field("key"))?;
        let (payload, fingerprint) = self.read_payload()?;
        Ok(JobSpec {
            queue,
            payload,
            fingerprint,
            key,
            created_at: self.created_at,
            run_at: self.run_at,
            priority: self.priority,
            group,
            gated: self.flags & GATED != 0,
            overrides,
            metadata,
        })
    }

    /// The key window the job asked for itself, if it did.
    pub(crate) fn window(mut self) -> Result<Option<Millis>, Damage> {
        self.read_group()?;
        Ok(self.read_overrides()?.window)
    }

    fn read_group(&mut self) -> Result<Option<Group>, Damage> {
        if self.flags & HAS_GROUP == 0 {
            return Ok(None);
        }
        Group::try_from(self.rest.text()?).map(Some).map_err(|_| Damage::Field("group"))
    }

    fn read_overrides(&mut self) -> Result<Overrides, Damage> {
        if self.flags & HAS_OVERRIDES == 0 {
            return Ok(Overrides::default());
        }
        serde_json::from_slice(self.rest.bytes()?).map_err(|_| Damage::Field("overrides"))
    }

    fn read_metadata(&mut self) -> Result<Vec<(String, String)>, Damage> {
        if self.flags & HAS_METADATA == 0 {
            return Ok(Vec::new());
        }
        let entries = self.rest.small()?;
        (0..entries).map(|_| Ok((self.rest.text()?.to_owned(), self.rest.text()?.to_owned()))).collect()
    }

    fn read_payload(&mut self) -> Result<(Option<Payload>, Fingerprint), Damage> {
        let bytes = self.rest.rest();
        if self.flags & STRIPPED != 0 {
            let digest = bytes.try_into().map_err(|_| Damage::Field("fingerprint"))?;
            return Ok((None, Fingerprint(u128::from_le_bytes(digest))));
        }
        // The checksum has just vouched for these bytes, and only a checked payload was ever written.
        let payload = Payload::from_parsed(Bytes::copy_from_slice(bytes));
        let fingerprint = Fingerprint::of(&payload);
        Ok((Some(payload), fingerprint))
    }
}
