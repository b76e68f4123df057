//! `semel.job`: what was published.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use semel_core::ids::JobId;
use semel_core::job::{JobSpec, Overrides, Priority};
use semel_core::key::{Fingerprint, Key};
use semel_core::name::{Group, QueueName};
use semel_core::payload::Payload;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

use super::{Cells, columns, metadata, sql_id, sql_time, time};
use crate::fault::Fault;

/// The columns of a published job, for a `SELECT` in which the table is `j`. [`JobRow::read`] reads them.
macro_rules! job_columns {
    () => {
        "j.created_at, j.run_at, j.priority, j.key, j.grp, j.gated, j.fingerprint, j.payload, j.metadata, j.overrides"
    };
}
pub(crate) use job_columns;

/// What was published.
#[derive(Debug)]
pub(crate) struct JobRow;

impl JobRow {
    /// Reads the next ten cells: those of `job_columns`.
    pub(crate) fn read(cells: &mut Cells<'_>, id: i64, queue: QueueName) -> Result<JobSpec, Fault> {
        let damaged = |what: &str| Fault::damaged("job", id, what);
        let (created_at, run_at): (i64, i64) = (cells.take()?, cells.take()?);
        let priority: i16 = cells.take()?;
        let (key, group): (Option<&str>, Option<&str>) = (cells.take()?, cells.take()?);
        let gated: bool = cells.take()?;
        let fingerprint: &[u8] = cells.take()?;
        let payload: Option<&str> = cells.take()?;
        let (metadata, overrides): (Option<&str>, Option<&str>) = (cells.take()?, cells.take()?);
        Ok(JobSpec {
            queue,
            payload: payload.map(|text| Payload::from_parsed(Bytes::copy_from_slice(text.as_bytes()))),
            fingerprint: read_fingerprint(fingerprint, payload)
                .ok_or_else(|| damaged("its fingerprint is not one"))?,
            key: key.map(Key::try_from).transpose().map_err(|_| damaged("its key is not one"))?,
            created_at: time(created_at),
            run_at: time(run_at),
            priority: read_priority(priority).ok_or_else(|| damaged("its priority is out of range"))?,
            group: group.map(Group::try_from).transpose().map_err(|_| damaged("its group is not one"))?,
            gated,
            overrides: read_overrides(overrides).map_err(|_| damaged("its overrides cannot be read"))?,
            metadata: metadata::read(metadata).map_err(|_| damaged("its metadata cannot be read"))?,
        })
    }
}

/// What stands in the place of a fingerprint that was left to be made: `semel.publish` is SQL, which does not have the hash.
const UNMADE: &[u8] = &[0];

/// A fingerprint, made from the payload if it was not before. Behind that of a stripped job there is another digest, for
/// `semel.publish`.
fn read_fingerprint(bytes: &[u8], payload: Option<&str>) -> Option<Fingerprint> {
    if bytes == UNMADE {
        return payload
            .map(|text| Fingerprint::of(&Payload::from_parsed(Bytes::copy_from_slice(text.as_bytes()))));
    }
    bytes.first_chunk().map(|bytes| Fingerprint(u128::from_be_bytes(*bytes)))
}

fn read_priority(code: i16) -> Option<Priority> {
    i8::try_from(code).ok().and_then(Priority::new)
}

/// What a job says for itself, as a column had it.
pub(crate) fn read_overrides(text: Option<&str>) -> Result<Overrides, serde_json::Error> {
    text.map_or_else(|| Ok(Overrides::default()), serde_json::from_str)
}

columns! {
    /// Published jobs, to be inserted.
    JobColumns {
        id: i64 => INT8_ARRAY,
        queue: i32 => INT4_ARRAY,
        created_at: i64 => INT8_ARRAY,
        run_at: i64 => INT8_ARRAY,
        priority: i16 => INT2_ARRAY,
        key: Option<String> => TEXT_ARRAY,
        grp: Option<String> => TEXT_ARRAY,
        gated: bool => BOOL_ARRAY,
        fingerprint: Digest => BYTEA_ARRAY,
        payload: Option<Text> => TEXT_ARRAY,
        metadata: Option<String> => TEXT_ARRAY,
        overrides: Option<String> => TEXT_ARRAY,
    }
}

impl JobColumns {
    /// Adds a job.
    pub(crate) fn push(&mut self, id: JobId, queue: i32, spec: &JobSpec) {
        self.id.push(sql_id(id));
        self.queue.push(queue);
        self.created_at.push(sql_time(spec.created_at));
        self.run_at.push(sql_time(spec.run_at));
        self.priority.push(spec.priority.get().into());
        self.key.push(spec.key.as_ref().map(|key| key.as_str().to_owned()));
        self.grp.push(spec.group.as_ref().map(ToString::to_string));
        self.gated.push(spec.gated);
        self.fingerprint.push(Digest::of(spec.fingerprint));
        self.payload.push(spec.payload.as_ref().map(Text::of));
        self.metadata.push(metadata::write(&spec.metadata));
        self.overrides.push(write_overrides(&spec.overrides));
    }
}

/// A payload on its way into a column of text, not copied before it is sent: JSON is Unicode, and a payload has been read as
/// JSON before it became one.
#[derive(Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    pub(crate) fn of(payload: &Payload) -> Self {
        Self(payload.bytes().clone())
    }
}

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

/// A fingerprint on its way into a column of bytes.
#[derive(Debug)]
pub(crate) struct Digest([u8; 16]);

impl Digest {
    pub(crate) fn of(fingerprint: Fingerprint) -> Self {
        Self(fingerprint.0.to_be_bytes())
    }
}

impl ToSql for Digest {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}

fn write_overrides(overrides: &Overrides) -> Option<String> {
    let text = || serde_json::to_string(overrides).expect("overrides are plain numbers");
    (!overrides.is_empty()).then(text)
}
