//! Comparing: both sides are read from end to end, in the order of ids. This side is read as the store itself reads it, so
//! that what is compared is what callers will see.

use std::cmp::Ordering;

use semel_core::ids::JobId;
use semel_core::time::Timestamp;
use semel_store::transfer::Source;
use semel_store::working::Stored;
use semel_store::{Progress, StoreError, Watcher};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::bite::KeyColumns;
use super::differences::of_jobs;
use super::walk::{Step, Walk};
use super::{Census, Differences, Move, Report, options, stopped};
use crate::apply::look_at;
use crate::catalog::{queue_id, queue_number};
use crate::fault::Fault;
use crate::flight::{Flight, Landed, Seat};
use crate::patience::Patience;
use crate::read::job::{Whole, whole_columns};
use crate::row::{Cells, job_id, sql_id, sql_time};
use crate::session::Sql;

/// Jobs between two ids, with the columns that follow from the others. Each table is told where to look: all of one would
/// be read for every page.
static JOBS: Sql = Sql {
    text: concat!(
        "SELECT ",
        whole_columns!(),
        ", l.queue, l.rank, l.grp, l.joined, d.queue, d.look_at
           FROM semel.job AS j
           JOIN semel.queue AS q ON q.id = j.queue
           LEFT JOIN (SELECT * FROM semel.live WHERE id > $1 AND id <= $2) AS l ON l.id = j.id
           LEFT JOIN (SELECT * FROM semel.done WHERE id > $1 AND id <= $2) AS d ON d.id = j.id
           LEFT JOIN (SELECT * FROM semel.trace WHERE job > $1 AND job <= $2) AS t ON t.job = j.id
          WHERE j.id > $1 AND j.id <= $2
          ORDER BY j.id"
    ),
    types: &[Type::INT8, Type::INT8],
};

/// Jobs that are not listed under their key.
static UNLISTED: Sql = Sql {
    text: "SELECT u.id
             FROM unnest($1, $2, $3) AS u (queue, key, id)
             LEFT JOIN semel.key AS k ON k.queue = u.queue AND k.key = u.key
            WHERE k.ids IS NULL OR u.id <> ALL (k.ids)",
    types: KeyColumns::TYPES,
};

/// A job as it was found here.
struct Seen {
    id: JobId,
    /// What is stored of it, or why that cannot be read.
    found: Result<(Stored, Follows), String>,
}

/// What follows from the rest of a job, and is stored so that an index can have it.
#[derive(Debug, PartialEq, Eq)]
enum Follows {
    /// Of an unfinished one.
    Live { queue: i32, rank: i16, line: Option<String>, joined: i64 },
    /// Of a finished one.
    Done { queue: i32, look_at: i64 },
}

/// A comparison under way.
struct Comparison<'a> {
    this: &'a Move,
    source: Census,
    target: Census,
    differences: Differences,
}

impl Move {
    /// Compares everything. As long as the move is not finished its queues are `hidden`.
    pub(super) async fn compare(
        &self,
        source: Box<dyn Source>,
        hidden: bool,
        watch: Watcher<'_>,
    ) -> Result<Report, StoreError> {
        let there = self.read_holdings(hidden).await.map_err(|fault| stopped(&fault))?;
        let differences = there.differences(&self.holdings);
        let (source_census, target) = (Census::of(&self.holdings), there.census());
        let mut comparison = Comparison { this: self, source: source_census, target, differences };
        let (mut walk, mut place) = (Walk::start(source, JobId::ZERO), JobId::ZERO);
        while let Step::Page(page, rest) = walk.next().await? {
            let to = page.last().map_or(place, |stored| stored.job.id);
            comparison.page(&page, place, to).await?;
            (place, walk) = (to, rest);
            let (done, total) = (comparison.source.jobs, self.holdings.jobs);
            watch(Progress { step: "comparing jobs", done, total: total.max(done) });
        }
        comparison.end(place).await
    }
}

impl Comparison<'_> {
    /// Compares the jobs of a page, which are all that there are between two ids.
    async fn page(&mut self, page: &[Stored], from: JobId, to: JobId) -> Result<(), StoreError> {
        let keys = KeyColumns::of(page);
        let range = (sql_id(from), sql_id(to));
        let mut patience = Patience::new(options().patience);
        let (seen, unlisted) = loop {
            match self.read(range, &keys).await {
                Ok(read) => break read,
                Err(fault) if patience.again(&fault).await => {}
                Err(fault) => return Err(stopped(&fault)),
            }
        };
        self.merge(page, &seen);
        for id in unlisted {
            self.differences.add(|| format!("{id} is not listed under its key"));
        }
        Ok(())
    }

    async fn read(
        &self,
        (from, to): (i64, i64),
        keys: &KeyColumns,
    ) -> Result<(Vec<Seen>, Vec<JobId>), Fault> {
        let session = self.this.pool.session().await?;
        let mut flight = Flight::on(&session);
        let jobs = flight.query(&JOBS, vec![&from, &to]);
        let unlisted = flight.query(&UNLISTED, keys.params());
        let landed: Landed = flight.land().await?;
        let rows = |seat: Seat| landed.rows(seat).iter();
        let seen = rows(jobs).map(Seen::read).collect::<Result<_, _>>()?;
        let unlisted = rows(unlisted).map(|row| job_id(Cells::of(row).take()?)).collect::<Result<_, _>>()?;
        Ok((seen, unlisted))
    }

    /// Goes along both sides at once.
    fn merge(&mut self, page: &[Stored], seen: &[Seen]) {
        let (mut here, mut there) = (page.iter().peekable(), seen.iter().peekable());
        loop {
            let order = match (here.peek(), there.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(stored), Some(seen)) => stored.job.id.cmp(&seen.id),
            };
            let stored = if order.is_le() { here.next() } else { None };
            let seen = if order.is_ge() { there.next() } else { None };
            self.pair(stored, seen);
        }
    }

    fn pair(&mut self, stored: Option<&Stored>, seen: Option<&Seen>) {
        if let Some(stored) = stored {
            self.source.add(stored);
        }
        if let Some(Seen { found: Ok((found, _)), .. }) = seen {
            self.target.add(found);
        }
        match (stored, seen) {
            (Some(stored), Some(seen)) => self.same(stored, seen),
            (Some(Stored { job, .. }), None) => self.differences.add(|| format!("{} is missing", job.id)),
            (None, Some(Seen { id, .. })) => {
                self.differences.add(|| format!("{id} is there, and should not be"));
            }
            (None, None) => {}
        }
    }

    fn same(&mut self, stored: &Stored, Seen { id, found }: &Seen) {
        match found {
            Ok((found, follows)) => {
                let mut parts = of_jobs(stored, found);
                if *follows != self.follows(stored) {
                    parts.push("place among the others");
                }
                self.differences.require(parts.is_empty(), || format!("{id}: other {}", parts.join(", ")));
            }
            Err(damage) => self.differences.add(|| format!("{id} cannot be read: {damage}")),
        }
    }

    fn follows(&self, stored: &Stored) -> Follows {
        let queue = queue_number(stored.queue);
        if stored.job.progress.state.is_finished() {
            let look_at = look_at(stored, self.this.rules(queue), Timestamp::default());
            return Follows::Done { queue, look_at: sql_time(look_at) };
        }
        Follows::Live {
            queue,
            rank: -i16::from(stored.job.spec.priority.get()),
            line: stored.line().map(ToString::to_string),
            joined: sql_time(stored.place().0),
        }
    }

    /// Compares what can only be counted when all has been seen.
    async fn end(mut self, last: JobId) -> Result<Report, StoreError> {
        let totals = self.this.read_totals(last).await.map_err(|fault| stopped(&fault))?;
        totals.compare(&self.source, &mut self.differences);
        let Self { source, target, differences, .. } = self;
        Ok(Report { resumed: false, moved: 0, source, target, differences })
    }
}

impl Seen {
    fn read(row: &Row) -> Result<Self, Fault> {
        let id = job_id(Cells::of(row).take()?)?;
        match read_whole(row) {
            Ok(found) => Ok(Self { id, found: Ok(found) }),
            Err(Fault::Damaged { what, .. }) => Ok(Self { id, found: Err(what) }),
            Err(fault) => Err(fault),
        }
    }
}

fn read_whole(row: &Row) -> Result<(Stored, Follows), Fault> {
    let mut cells = Cells::of(row);
    let mut whole = Whole::read(&mut cells)?;
    let follows = Follows::read(&mut cells)?;
    let (queue, lease, open) = (queue_id(whole.queue), whole.lease, whole.open);
    let suppressed = std::mem::take(&mut whole.trace.suppressed);
    Ok((Stored { job: whole.into_job(), queue, lease, open, suppressed }, follows))
}

impl Follows {
    fn read(cells: &mut Cells<'_>) -> Result<Self, Fault> {
        let (queue, rank): (Option<i32>, Option<i16>) = (cells.take()?, cells.take()?);
        let (line, joined): (Option<String>, Option<i64>) = (cells.take()?, cells.take()?);
        let (done_queue, look_at): (Option<i32>, Option<i64>) = (cells.take()?, cells.take()?);
        Ok(match (queue, rank, joined) {
            (Some(queue), Some(rank), Some(joined)) => Self::Live { queue, rank, line, joined },
            _ => Self::Done { queue: done_queue.unwrap_or(0), look_at: look_at.unwrap_or(0) },
        })
    }
}
