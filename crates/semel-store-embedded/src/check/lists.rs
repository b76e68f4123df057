//! The derived lists against the truth: chunks, the order, the groups; and the small records.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};
use semel_core::ids::JobId;
use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;

use super::findings::Findings;
use super::jobs::Truth;
use crate::backlog::decode_ids;
use crate::db::{job_id, sql_id};
use crate::engine::seed;
use crate::fault::Fault;
use crate::queues::{Counts, QueueRow};
use crate::record::{Damage, decode_job, decode_progress, decode_trace, open_json};

/// The queues' rows and counts.
pub(super) fn queues(conn: &Connection, found: &mut Findings) -> Result<BTreeMap<u32, Counts>, Fault> {
    let mut all =
        conn.prepare("SELECT q.id, q.rec, c.rec FROM queue q LEFT JOIN counter c ON c.id = q.id")?;
    let mut rows = all.query([])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let no: u32 = row.get(0)?;
        let rec = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if let Err(damage) = open_json::<QueueRow>(rec, u64::from(no)) {
            found.add(format!("queue number {no}: {damage}"));
        }
        let stored = row.get_ref(2)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let read = stored.ok_or(Damage::Short).and_then(|rec| open_json::<Counts>(rec, u64::from(no)));
        match read {
            Ok(stored) => _ = counts.insert(no, stored),
            Err(damage) => {
                found.add(format!("the counts of queue number {no}: {damage}"));
                counts.insert(no, Counts::default());
            }
        }
    }
    Ok(counts)
}

/// Everything that lists jobs, against the jobs.
pub(super) fn check(conn: &Connection, truth: &Truth, found: &mut Findings) -> Result<(), Fault> {
    let listed = chunks(conn, found)?;
    let ordered = order(conn, found)?;
    let waiting = groups(conn, found)?;
    for (no, tally) in &truth.queues {
        let in_chunks = listed.get(no).copied().unwrap_or(0);
        found.require(in_chunks == tally.in_chunks, || {
            format!(
                "queue number {no}: {} sealed jobs wait, but its chunks list {in_chunks} of them",
                tally.in_chunks
            )
        });
        let in_order = ordered.get(no).copied().unwrap_or(0);
        found.require(in_order == tally.stored.ordered, || {
            format!(
                "queue number {no}: its row says {} jobs are in order, there are {in_order}",
                tally.stored.ordered
            )
        });
        let behind = waiting.get(no).copied().unwrap_or(0);
        found.require(in_order + behind == tally.elsewhere, || {
            format!(
                "queue number {no}: {} jobs must be in order or in a group, {} are",
                tally.elsewhere,
                in_order + behind
            )
        });
    }
    traces(conn, found)?;
    records::<ScheduleRecord>(conn, "schedule", found)?;
    records::<ApiKeyRecord>(conn, "api_key", found)?;
    // A store that was last opened by an older program does not have it yet.
    if conn.table_exists(None, "replay")? {
        records::<ReplayRecord>(conn, "replay", found)?;
    }
    Ok(())
}

/// How many plain pending jobs the chunks of each queue list.
fn chunks(conn: &Connection, found: &mut Findings) -> Result<BTreeMap<u32, u64>, Fault> {
    let mut all = conn.prepare("SELECT queue, first, last, rec FROM chunk ORDER BY queue, first")?;
    let mut rows = all.query([])?;
    let mut listed: BTreeMap<u32, u64> = BTreeMap::new();
    let mut before: Option<(u32, JobId)> = None;
    while let Some(row) = rows.next()? {
        let (no, first, last): (u32, JobId, JobId) =
            (row.get(0)?, job_id(row.get(1)?)?, job_id(row.get(2)?)?);
        let overlaps = before.is_some_and(|(queue, end)| queue == no && first <= end);
        found.require(!overlaps, || format!("chunk {first}: it overlaps the one before it"));
        before = Some((no, last));
        match decode_ids(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?, first) {
            Ok(ids) => {
                found.require(ids.is_sorted_by(|a, b| a < b), || {
                    format!("chunk {first}: its ids are not in order")
                });
                for id in ids {
                    if is_plain_pending(conn, id, no)? {
                        *listed.entry(no).or_default() += 1;
                    }
                }
            }
            Err(damage) => found.add(format!("chunk {first}: {damage}")),
        }
    }
    Ok(listed)
}

fn record(conn: &Connection, table: &str, id: JobId) -> Result<Option<Vec<u8>>, Fault> {
    let mut get = conn.prepare_cached(&format!("SELECT rec FROM {table} WHERE id = ?1"))?;
    Ok(get.query_row([sql_id(id)], |row| row.get(0)).optional()?)
}

fn is_plain_pending(conn: &Connection, id: JobId, no: u32) -> Result<bool, Fault> {
    let Some(rec) = record(conn, "job", id)? else { return Ok(false) };
    // A damaged record has been reported by the walk over all jobs.
    let Ok(job) = decode_job(&rec, id) else { return Ok(false) };
    for table in ["live", "done", "dead"] {
        if record(conn, table, id)?.is_some() {
            return Ok(false);
        }
    }
    Ok(job.plain && job.queue_no == no)
}

/// How many jobs of each queue are in order; each must be unfinished and stand at its due time.
fn order(conn: &Connection, found: &mut Findings) -> Result<BTreeMap<u32, u64>, Fault> {
    let mut all = conn.prepare("SELECT queue, due, id FROM ordered")?;
    let mut rows = all.query([])?;
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (no, due, id): (u32, i64, JobId) = (row.get(0)?, row.get(1)?, job_id(row.get(2)?)?);
        *counts.entry(no).or_default() += 1;
        found.require(record(conn, "job", id)?.is_some(), || {
            format!("job {id} is in order but does not exist")
        });
        let ended = record(conn, "done", id)?.is_some() || record(conn, "dead", id)?.is_some();
        found.require(!ended, || format!("job {id} is in order but has ended"));
        if let Some(Ok(progress)) = record(conn, "live", id)?.map(|rec| decode_progress(&rec, id)) {
            let right = progress.due.millis() == due.cast_unsigned();
            found.require(right, || format!("job {id} stands in order at another time than it is due"));
        }
    }
    Ok(counts)
}

/// How many jobs of each queue wait behind their group; every member of a group must be unfinished.
fn groups(conn: &Connection, found: &mut Findings) -> Result<BTreeMap<u32, u64>, Fault> {
    let mut all = conn.prepare("SELECT queue, waiting, id FROM grouped")?;
    let mut rows = all.query([])?;
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (no, waiting, id): (u32, u64, JobId) =
            (row.get(0)?, row.get::<_, u32>(1)?.into(), job_id(row.get(2)?)?);
        *counts.entry(no).or_default() += waiting;
        let ended = record(conn, "done", id)?.is_some() || record(conn, "dead", id)?.is_some();
        let there = record(conn, "job", id)?.is_some();
        found.require(there && !ended, || format!("job {id} is in a group but has ended or does not exist"));
    }
    Ok(counts)
}

fn traces(conn: &Connection, found: &mut Findings) -> Result<(), Fault> {
    let mut all = conn.prepare("SELECT id, rec FROM trace")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let id = job_id(row.get(0)?)?;
        if let Err(damage) = decode_trace(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, id) {
            found.add(format!("trace of job {id}: {damage}"));
        }
    }
    Ok(())
}

fn records<T: serde::de::DeserializeOwned>(
    conn: &Connection,
    table: &str,
    found: &mut Findings,
) -> Result<(), Fault> {
    let mut all = conn.prepare(&format!("SELECT name, rec FROM {table}"))?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if let Err(damage) =
            open_json::<T>(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, seed(&name))
        {
            found.add(format!("{table} {name}: {damage}"));
        }
    }
    Ok(())
}

/// SQLite's own check of every page.
pub(super) fn pages(conn: &Connection, found: &mut Findings) -> Result<(), Fault> {
    let mut check = conn.prepare("PRAGMA integrity_check(50)")?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        found.require(line == "ok", || format!("pages: {line}"));
    }
    Ok(())
}
