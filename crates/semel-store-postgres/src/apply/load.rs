//! Loading: what the commands are about comes into a working set.

mod lines;
pub(crate) mod statements;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use semel_core::ids::JobId;
use semel_core::key::Key;
use semel_core::name::{Group, QueueName};
use semel_core::publish;
use semel_core::queue::Rules;
use semel_store::working::{Stored, StoredQueue, WorkingSet};
use tokio_postgres::Row;

use super::Setback;
use super::wants::{Kind, Shown, Wants};
use super::work::Work;
use crate::catalog::queue_id;
use crate::fault::Fault;
use crate::row::{Cells, DoneRow, JobRow, LiveRow, QueueRow, TraceRow, is_free, job_id, sql_id};
use statements::{DONE_JOBS, KEYS, KNOWN_JOBS, LIVE_JOBS, QUEUES, RECORDS, TRACES};

/// What was loaded.
pub(super) struct Loaded {
    /// The working set.
    pub(super) set: WorkingSet,
    /// The rules of every queue that is in it.
    pub(super) rules: BTreeMap<i32, Arc<Rules>>,
    /// The highest id under any of its keys. A new job under a key must have a higher one, and the clock alone does not see
    /// to that: another node may have made it in this very millisecond.
    pub(super) highest: Option<JobId>,
}

/// What has been read so far.
struct Load<'w, 'a> {
    work: &'w mut Work<'a>,
    wants: &'w Wants,
    queues: BTreeMap<i32, QueueRow>,
    rules: BTreeMap<i32, Arc<Rules>>,
    keys: BTreeMap<(i32, Key), BTreeSet<JobId>>,
    jobs: BTreeMap<JobId, Stored>,
    lines: Vec<(QueueName, Group, u32)>,
    records: Vec<Row>,
}

/// Loads what some commands want.
pub(super) async fn load(work: &mut Work<'_>, wants: &Wants) -> Result<Loaded, Setback> {
    let mut load = Load {
        work,
        wants,
        queues: BTreeMap::new(),
        rules: BTreeMap::new(),
        keys: BTreeMap::new(),
        jobs: BTreeMap::new(),
        lines: Vec::new(),
        records: Vec::new(),
    };
    load.begin().await?;
    load.check_queues()?;
    load.remaining_jobs().await?;
    load.lines().await?;
    load.into_set()
}

impl Load<'_, '_> {
    /// The first flight: queues, keys, unfinished jobs, records.
    async fn begin(&mut self) -> Result<(), Setback> {
        let wants = self.wants;
        let ids: Vec<i64> = self.named().map(sql_id).collect();
        let (key_queues, keys): (Vec<i32>, Vec<&str>) = self.numbered_keys().unzip();
        let (kinds, names): (Vec<&str>, Vec<&str>) =
            wants.records.iter().map(|(kind, name)| (kind.name(), name.as_str())).unzip();
        // The newest job decides. Only where it may go the one before it matters, and then perhaps all of them.
        let depth: i32 = if wants.purges { i32::MAX } else { 1 };
        let no_prints: Option<Vec<&[u8]>> = None;
        let (mut flight, locks) = self.work.flight();
        let queues = locks.is_none().then(|| flight.query(&QUEUES, vec![&self.work.made]));
        let keys = (!keys.is_empty()).then(|| flight.query(&KEYS, vec![&key_queues, &keys, &depth]));
        let jobs = (!ids.is_empty()).then(|| flight.query(&LIVE_JOBS, vec![&ids, &no_prints]));
        let records = (!names.is_empty()).then(|| flight.query(&RECORDS, vec![&kinds, &names]));
        let mut landed = flight.land().await?;
        let locked = self.work.landed(&landed, locks)?;
        let read = |row| QueueRow::read(&mut Cells::of(row));
        let queues = locked.map_or_else(|| landed.rows_of(queues).iter().map(read).collect(), Ok)?;
        self.note_queues(queues)?;
        self.read_keys(landed.rows_of(keys))?;
        self.read_live(landed.rows_of(jobs))?;
        self.records = landed.take(records);
        Ok(())
    }

    /// The jobs that are named, and those whose lease is to be ended.
    fn named(&self) -> impl Iterator<Item = JobId> {
        let expired = if self.wants.rescues > 0 { self.work.expired.as_slice() } else { &[] };
        let named: BTreeSet<_> = self.wants.jobs.keys().chain(expired).copied().collect();
        named.into_iter()
    }

    /// The keys that are named, in queues that there are, in the order in which they are locked.
    fn numbered_keys(&self) -> impl Iterator<Item = (i32, &str)> {
        let number = |(queue, key)| Some((*self.work.names.get(queue)?, Key::as_str(key)));
        let keys: BTreeSet<_> =
            self.wants.keys.keys().filter_map(|(queue, key)| number((queue, key))).collect();
        keys.into_iter()
    }

    fn note_queues(&mut self, queues: Vec<QueueRow>) -> Result<(), Fault> {
        for queue in queues {
            if !queue.deleted {
                let rules = self.work.store.catalog.rules(queue.id, queue.version, &queue.record.config)?;
                self.rules.insert(queue.id, rules);
            }
            self.queues.insert(queue.id, queue);
        }
        Ok(())
    }

    fn read_keys(&mut self, rows: &[Row]) -> Result<(), Fault> {
        for row in rows {
            let mut cells = Cells::of(row);
            let (queue, key): (i32, &str) = (cells.take()?, cells.take()?);
            let ids: Vec<i64> = cells.take()?;
            let key =
                Key::try_from(key).map_err(|_| Fault::damaged("key", queue.into(), "a key is not one"))?;
            let ids = ids.into_iter().map(job_id).collect::<Result<_, _>>()?;
            self.keys.insert((queue, key), ids);
        }
        Ok(())
    }

    fn read_live(&mut self, rows: &[Row]) -> Result<(), Setback> {
        for row in rows {
            let stored = read_live(row, &self.queues)?;
            self.jobs.insert(stored.job.id, stored);
        }
        Ok(())
    }

    fn read_done(&mut self, rows: &[Row]) -> Result<(), Setback> {
        for row in rows {
            let stored = read_done(row, &self.queues)?;
            self.jobs.insert(stored.job.id, stored);
        }
        Ok(())
    }

    /// Whether the locks are enough, and what this node remembered of the queues is so.
    fn check_queues(&self) -> Result<(), Setback> {
        for name in &self.wants.queues {
            let Some(number) = self.work.names.get(name) else { continue };
            let row = self.queues.get(number).filter(|row| !row.deleted && row.record.name == *name);
            if row.is_none() {
                self.work.store.catalog.forget(name);
                return Err(Setback::again());
            }
        }
        let busy = |row: &&QueueRow| !row.deleted && !is_free(&row.record.config, &row.record.gate);
        let busy = self.queues.values().filter(busy).map(|row| row.id);
        let alone: BTreeSet<_> = busy.filter(|id| !self.work.has_alone(*id)).collect();
        if alone.is_empty() { Ok(()) } else { Err(Setback::Again { alone }) }
    }

    /// The second flight: the jobs that hold a key, and those that are not among the unfinished.
    async fn remaining_jobs(&mut self) -> Result<(), Setback> {
        let holders = self.holders();
        let missing = self.named().filter(|id| !self.jobs.contains_key(id)).map(|id| (id, None));
        let wanted: BTreeMap<JobId, _> = missing.chain(holders.iter().cloned()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let (ids, prints): (Vec<i64>, Vec<_>) =
            wanted.into_iter().map(|(id, print)| (sql_id(id), print)).unzip();
        let (holder_ids, holder_prints): (Vec<i64>, Vec<_>) =
            holders.into_iter().map(|(id, print)| (sql_id(id), print)).unzip();
        let (mut flight, _) = self.work.flight();
        let live = flight.query(&LIVE_JOBS, vec![&holder_ids, &holder_prints]);
        let done = flight.query(&DONE_JOBS, vec![&ids, &prints]);
        let traces = flight.query(&TRACES, vec![&holder_ids]);
        let known = flight.query(&KNOWN_JOBS, vec![&ids]);
        let landed = flight.land().await?;
        self.read_live(landed.rows(live))?;
        self.read_done(landed.rows(done))?;
        self.read_traces(landed.rows(traces))?;
        self.check_known(landed.rows(known))
    }

    /// The jobs that decide about the keys, with the fingerprint that their payload is to be compared with.
    fn holders(&self) -> Vec<(JobId, Option<Vec<u8>>)> {
        let mut holders = Vec::new();
        for ((queue, key), shown) in &self.wants.keys {
            let Some(number) = self.work.names.get(queue) else { continue };
            let ids = self.keys.get(&(*number, key.clone())).into_iter().flatten();
            holders.extend(ids.map(|id| (*id, shown.print())));
        }
        holders
    }

    fn read_traces(&mut self, rows: &[Row]) -> Result<(), Fault> {
        for row in rows {
            let mut cells = Cells::of(row);
            let raw = cells.take()?;
            let trace = TraceRow::read(&mut cells, raw)?;
            if let Some(stored) = self.jobs.get_mut(&job_id(raw)?) {
                stored.job.duplicates = trace.duplicates;
                stored.suppressed = trace.suppressed;
            }
        }
        Ok(())
    }

    /// A job that exists but was found in neither table went from the second to the first in between.
    fn check_known(&self, rows: &[Row]) -> Result<(), Setback> {
        for row in rows {
            let id = job_id(Cells::of(row).take()?)?;
            if !self.jobs.contains_key(&id) {
                return Err(Setback::again());
            }
        }
        Ok(())
    }

    fn into_set(mut self) -> Result<Loaded, Setback> {
        let mut set = WorkingSet::new();
        let highest = self.keys.values().filter_map(|ids| ids.last()).max().copied();
        for (id, row) in std::mem::take(&mut self.queues) {
            if let Some(rules) = self.rules.get(&id) {
                set.load_queue(row.record.name.clone(), stored_queue(row, Arc::clone(rules)));
            }
        }
        std::mem::take(&mut self.jobs).into_values().for_each(|stored| set.load_job(stored));
        for (queue, key) in self.wants.keys.keys() {
            let Some(number) = self.work.names.get(queue) else { continue };
            let ids = self.keys.remove(&(*number, key.clone())).unwrap_or_default();
            set.load_key(queue_id(*number), key.clone(), ids);
        }
        for (queue, group, open) in std::mem::take(&mut self.lines) {
            set.load_line(&queue, group, open);
        }
        self.records.iter().try_for_each(|row| load_record(&mut set, row))?;
        Ok(Loaded { set, rules: self.rules, highest })
    }
}

/// The unfinished job in a row.
fn read_live(row: &Row, queues: &BTreeMap<i32, QueueRow>) -> Result<Stored, Setback> {
    let mut cells = Cells::of(row);
    let mut stored = read_spec(&mut cells, queues)?;
    let id = sql_id(stored.job.id);
    let live = LiveRow::read(&mut cells, id)?;
    let LiveRow { progress, open, lease, .. } =
        live.ok_or_else(|| Fault::damaged("live", id, "it has no due time"))?;
    stored.job.progress = progress;
    Ok(Stored { open, lease, ..stored })
}

/// The finished job in a row.
pub(crate) fn read_done(row: &Row, queues: &BTreeMap<i32, QueueRow>) -> Result<Stored, Setback> {
    let mut cells = Cells::of(row);
    let mut stored = read_spec(&mut cells, queues)?;
    let id = sql_id(stored.job.id);
    let progress = DoneRow::read(&mut cells, id)?;
    stored.job.progress = progress.ok_or_else(|| Fault::damaged("done", id, "it has no state"))?;
    Ok(stored)
}

/// What was published, and where. A job whose queue is not locked was published after the locks were taken.
fn read_spec(cells: &mut Cells<'_>, queues: &BTreeMap<i32, QueueRow>) -> Result<Stored, Setback> {
    let (raw, queue): (i64, i32) = (cells.take()?, cells.take()?);
    let name = queues.get(&queue).map(|row| row.record.name.clone()).ok_or_else(Setback::again)?;
    let job = publish::create(job_id(raw)?, JobRow::read(cells, raw, name)?);
    Ok(Stored { job, queue: queue_id(queue), lease: None, open: true, suppressed: VecDeque::new() })
}

fn stored_queue(row: QueueRow, rules: Arc<Rules>) -> StoredQueue {
    let record = row.record;
    StoredQueue {
        id: queue_id(row.id),
        rules,
        gate: record.gate,
        secrets: record.secrets,
        created_at: record.created_at,
    }
}

fn load_record(set: &mut WorkingSet, row: &Row) -> Result<(), Fault> {
    let kind: &str = Cells::of(row).take()?;
    match Kind::named(kind) {
        Some(Kind::Schedule) => set.load_schedule(statements::record(row)?),
        Some(Kind::ApiKey) => set.load_api_key(statements::record(row)?),
        Some(Kind::Replay) => set.load_replay(statements::record(row)?),
        None => return Err(Fault::damaged("record", 0, &format!("{kind} is no kind of record"))),
    }
    Ok(())
}

impl Shown {
    /// What a stored payload is compared with before it is read: nothing where it does not matter, a fingerprint that no
    /// payload has where it does in any case.
    fn print(self) -> Option<Vec<u8>> {
        match self {
            Self::Nothing => None,
            Self::One(fingerprint) => Some(fingerprint.0.to_be_bytes().into()),
            Self::Several => Some(Vec::new()),
        }
    }
}
