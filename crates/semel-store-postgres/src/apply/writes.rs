//! Rows on their way into the tables: one statement per table and kind of change, however many rows there are.

mod columns;
mod statements;

use semel_core::time::Timestamp;
use semel_store::working::Stored;

use super::Setback;
use super::work::Work;
use crate::catalog::queue_number;
use crate::flight::Flight;
use crate::row::{DoneColumns, JobColumns, LiveColumns, LiveRow, Standing, TraceColumns, sql_time};
use crate::session::Sql;
use columns::{KeyIds, QueueColumns, RecordColumns, StrippedColumns, TallyColumns};

static COMMIT_LAZILY: Sql = Sql { text: "SELECT set_config('synchronous_commit', 'off', true)", types: &[] };

/// Everything that a part of a batch writes.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Whether anything of it must survive a power cut.
    pub(super) lasting: bool,
    /// Keys that were not known.
    pub(super) new_keys: KeyIds,
    /// Keys that have one more job.
    pub(super) more_keys: KeyIds,
    /// Keys that a job leaves.
    pub(super) left_keys: KeyIds,
    /// Jobs that were published.
    pub(super) jobs: JobColumns,
    /// Unfinished jobs that are new in their table.
    pub(super) live_new: LiveColumns,
    /// Unfinished jobs that stay in it.
    pub(super) live_changed: LiveColumns,
    /// Jobs that are not among the unfinished any more.
    pub(super) live_gone: Vec<i64>,
    /// Finished jobs that are new in their table.
    pub(super) done_new: DoneColumns,
    /// Finished jobs that stay in it.
    pub(super) done_changed: DoneColumns,
    /// Jobs that are not among the finished any more.
    pub(super) done_gone: Vec<i64>,
    /// Jobs that lose all but their key.
    pub(super) stripped: StrippedColumns,
    /// Jobs that are gone.
    pub(super) dropped: Vec<i64>,
    /// Jobs that came and went within the batch.
    pub(super) short_lived: Vec<i64>,
    /// Suppressed publishes.
    pub(super) traces: TraceColumns,
    /// Counts.
    pub(super) tallies: TallyColumns,
    /// Schedules, API keys and replays.
    pub(super) records: RecordColumns,
    /// Queues.
    pub(super) queues: QueueColumns,
}

impl Writes {
    /// An unfinished job that is new in its table.
    pub(super) fn push_live_new(&mut self, new: &Stored) {
        push_live(&mut self.live_new, new);
    }

    /// An unfinished job that stays in its table.
    pub(super) fn push_live_changed(&mut self, new: &Stored) {
        push_live(&mut self.live_changed, new);
    }

    /// A finished job that is new in its table.
    pub(super) fn push_done_new(&mut self, new: &Stored, look_at: Timestamp) {
        self.done_new.push(new.job.id, queue_number(new.queue), &new.job.progress, look_at);
    }

    /// A finished job that stays in its table.
    pub(super) fn push_done_changed(&mut self, new: &Stored, look_at: Timestamp) {
        self.done_changed.push(new.job.id, queue_number(new.queue), &new.job.progress, look_at);
    }

    /// Whether there is nothing but new jobs, each at the beginning of its life, jobs that end, and what counts them and keeps
    /// their keys; and all of it happened `now`.
    pub(super) fn are_plain(&self, now: Timestamp) -> bool {
        let Self { jobs, live_new, live_gone, done_new, new_keys, .. } = self;
        let now = sql_time(now);
        let fresh = live_new.open.iter().all(|open| *open)
            && live_new.grp.iter().all(Option::is_none)
            && live_new.progress.iter().all(Option::is_none)
            && live_new.id == jobs.id
            && live_new.due == jobs.run_at
            && live_new.joined == jobs.created_at
            && jobs.created_at.iter().all(|at| *at == now)
            && !jobs.gated.contains(&true)
            && new_keys.id.len() == jobs.key.iter().flatten().count();
        fresh
            && *live_gone == done_new.id
            && done_new.finished_at.iter().all(|at| *at == now)
            && self.has_no_more()
    }

    /// Whether nothing is written but new jobs with their keys, jobs that end, and counts.
    fn has_no_more(&self) -> bool {
        let Self { more_keys, left_keys, live_changed, done_changed, done_gone, stripped, dropped, .. } =
            self;
        let Self { short_lived, traces, records, queues, .. } = self;
        let keys = more_keys.id.len() + left_keys.id.len();
        let changed = live_changed.id.len() + done_changed.id.len() + stripped.id.len();
        let gone = done_gone.len() + dropped.len() + short_lived.len();
        keys + changed + gone + traces.job.len() + records.kind.len() + queues.id.len() == 0
    }

    /// The queues of the jobs that stand where leases look for them from now on, and since when each is due.
    pub(super) fn appears(&self) -> impl Iterator<Item = (i32, i64)> {
        [&self.live_new, &self.live_changed].into_iter().flat_map(
            |LiveColumns { queue, due, token, open, .. }| {
                let rows = queue.iter().zip(due).zip(token.iter().zip(open));
                rows.filter(|(_, (token, open))| token.is_none() && **open)
                    .map(|((queue, due), _)| (*queue, *due))
            },
        )
    }

    /// Sends everything in one flight; with the COMMIT if it is the last one.
    pub(super) async fn send(&self, work: &Work<'_>, last: bool) -> Result<(), Setback> {
        let (mut flight, _) = work.flight();
        self.add_to(&mut flight);
        work.send(flight, last).await.map(drop)
    }

    /// Sends everything that the transaction writes, and its COMMIT. If a power cut may undo it nobody waits for the disk.
    pub(super) async fn send_all(&self, work: &Work<'_>) -> Result<(), Setback> {
        let (mut flight, _) = work.flight();
        if !self.lasting {
            flight.query(&COMMIT_LAZILY, vec![]);
        }
        self.add_to(&mut flight);
        work.send(flight, true).await.map(drop)
    }

    /// Adds the statements that have something to write, in the order in which rows are locked.
    pub(crate) fn add_to<'a>(&'a self, flight: &mut Flight<'a>) {
        self.add_keys(flight);
        self.add_jobs(flight);
        self.add_rest(flight);
    }
}

fn push_live(columns: &mut LiveColumns, stored: &Stored) {
    let standing = Standing {
        queue: queue_number(stored.queue),
        priority: stored.job.spec.priority,
        line: stored.line(),
        joined: stored.place().0,
    };
    let row = LiveRow {
        progress: stored.job.progress.clone(),
        open: stored.open,
        lease: stored.lease,
        // Who handed the lease out does not change as long as there is one.
        node: None,
    };
    columns.push(stored.job.id, standing, &row);
}
