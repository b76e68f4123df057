//! Keeping the key index small: a run of which most jobs are gone is rewritten to those that are left.
//!
//! Whole old runs are dropped when everything below them is gone. But one job that never ends would keep every run above
//! it for ever; so a run that is mostly garbage is read by a thread of its own, against the job rows, and shrunk.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::thread::JoinHandle;

use semel_core::ids::JobId;

use super::Engine;
use crate::db::{job_id, sql};
use crate::fault::Fault;
use crate::keys::{Entry, IdRange, RunEntries};
use crate::schema::{self, DB_FILE};

/// Runs smaller than this are not worth rewriting alone; merging takes them in.
const WORTH_ENTRIES: u64 = 4096;

type Survivors = Result<(IdRange, Vec<Entry>), Fault>;

/// What is known of garbage in the runs, and the scan that is under way.
#[derive(Debug, Default)]
pub(crate) struct Tidy {
    db: PathBuf,
    /// Jobs dropped since a run was last looked at, by the upper end of the run.
    dropped: BTreeMap<u64, u64>,
    /// Runs that have been looked at since the store was opened.
    known: HashSet<IdRange>,
    scan: Option<JoinHandle<Survivors>>,
    found: Option<(IdRange, Vec<Entry>)>,
}

impl Tidy {
    pub(super) fn new(dir: &std::path::Path) -> Self {
        Self { db: dir.join(DB_FILE), ..Self::default() }
    }

    /// A job has been dropped; its entry is garbage now.
    pub(super) fn dropped(&mut self, id: JobId) {
        if let Some((_, count)) = self.dropped.range_mut(id.raw()..).next() {
            *count += 1;
        }
    }
}

impl Engine<'_> {
    /// To be called between passes of the sweep: takes in a scan that has ended, or starts the next.
    pub(super) fn tidy_index(&mut self) -> Result<(), Fault> {
        self.take_in_scan()?;
        if let Some((range, survivors)) = self.tidy.found.take() {
            let current = self.keys.runs().iter().any(|run| run.range == range);
            if current && !self.keys.begin_compact(range, survivors.clone())? {
                self.tidy.found = Some((range, survivors));
            }
            return Ok(());
        }
        if self.tidy.scan.is_none() {
            self.start_scan()?;
        }
        Ok(())
    }

    fn take_in_scan(&mut self) -> Result<(), Fault> {
        let Some(scan) = self.tidy.scan.take_if(|scan| scan.is_finished()) else { return Ok(()) };
        let (range, survivors) =
            scan.join().map_err(|_| Fault::Broken("the scan of a run panicked".into()))??;
        let entries = self.keys.runs().iter().find(|run| run.range == range).map_or(0, |run| run.entries);
        if (survivors.len() as u64) * 2 <= entries {
            self.tidy.found = Some((range, survivors));
        }
        Ok(())
    }

    /// Picks a run that has not been looked at since the open, or of which half has been dropped since.
    fn start_scan(&mut self) -> Result<(), Fault> {
        let runs = self.keys.runs();
        self.tidy.known.retain(|range| runs.iter().any(|run| run.range == *range));
        self.tidy.dropped.retain(|hi, _| runs.iter().any(|run| run.range.hi == *hi));
        for run in &runs {
            self.tidy.dropped.entry(run.range.hi).or_default();
        }
        let tidy = &self.tidy;
        let due = runs.iter().find(|run| {
            let dropped = tidy.dropped.get(&run.range.hi).copied().unwrap_or(0);
            run.entries >= WORTH_ENTRIES && (!tidy.known.contains(&run.range) || dropped * 2 >= run.entries)
        });
        let Some(run) = due else { return Ok(()) };
        self.tidy.known.insert(run.range);
        self.tidy.dropped.insert(run.range.hi, 0);
        let (range, entries, db) = (run.range, self.keys.run_entries(run.range)?, self.tidy.db.clone());
        let spawned =
            std::thread::Builder::new().name("semel-tidy".into()).spawn(move || scan(range, entries, &db));
        self.tidy.scan = Some(spawned.map_err(|e| Fault::Broken(format!("cannot start a thread: {e}")))?);
        Ok(())
    }
}

/// The entries of a run whose jobs are still there. A job dropped meanwhile is garbage that stays; none is missed, because
/// a row that is gone never comes back.
fn scan(range: IdRange, entries: RunEntries, db: &std::path::Path) -> Survivors {
    let conn = schema::open_reader(db).map_err(|e| Fault::Broken(e.to_string()))?;
    let mut alive = HashSet::new();
    let mut from = range.lo;
    // Short transactions: a long one would keep the log from starting over.
    loop {
        let page: Vec<JobId> = conn
            .prepare_cached("SELECT id FROM job WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT 10000")?
            .query_map([sql(from), sql(range.hi)], |row| job_id(row.get(0)?))?
            .collect::<Result<_, _>>()?;
        let Some(last) = page.last() else { break };
        from = last.raw();
        alive.extend(page.iter().map(|id| id.raw()));
    }
    let survivors = entries.filter(|entry| entry.as_ref().map_or(true, |entry| alive.contains(&entry.id)));
    Ok((range, survivors.collect::<Result<_, _>>()?))
}
