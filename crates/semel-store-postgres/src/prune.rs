//! Pruning: finished jobs whose retention or window is over are stripped or dropped, a bite at a time.
//!
//! Every finished job has a time at which to look at it again (`done.look_at`), so a bite is a walk along an index. When the
//! settings of a queue change such that jobs may have to go earlier, and when a queue is deleted, those times are wrong: then
//! the finished jobs are [swept](sweep) once and get new ones.

mod statements;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::queue::Rules;
use semel_core::retention::Fate;
use semel_store::Reply;
use semel_store::working::{Changes, JobChange, Stored, fate};
use tokio_postgres::Row;

use crate::apply::{Setback, Work, read_done, writes};
use crate::catalog::queue_number;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::locks;
use crate::row::{Cells, QueueRow, sql_id, sql_time};
use statements::{
    BITE_MAX, DROP_DELETED_QUEUES, DROP_ORPHANED_TALLIES, FOLD_TALLIES, LOCK_KEYS, LOCK_QUEUES, LOOK_ANEW,
    QUEUES, TO_LOOK_AT, TO_PRUNE,
};

/// How many changes of counts are left lying before they are added up: what a reader of the counts adds up in a millisecond.
const TALLIES_MAX: i64 = 2000;

/// Looks at up to `limit` finished jobs; with the COMMIT if it is the last part of its batch.
pub(crate) async fn prune(work: &mut Work<'_>, limit: u32, last: bool) -> Result<Reply, Setback> {
    let limit = i64::from(limit).min(BITE_MAX);
    if sweep::sweep(work, limit).await? {
        // Whoever sweeps holds what a change of a queue waits for, so nothing here may wait for a queue: the next one prunes.
        work.send(Flight::on(work.session), last).await?;
        return Ok(Reply::Pruned { dropped: 0, stripped: 0, more: true });
    }
    let found = Found::look(work, limit).await?;
    let bite = Bite::take(work, &found).await?;
    let more = found.more || bite.left_out;
    let (dropped, stripped) = bite.carry_out(work, last, !more).await?;
    Ok(Reply::Pruned { dropped, stripped, more })
}

/// Finished jobs whose time to be looked at has come, and their keys.
struct Found {
    jobs: BTreeMap<i64, (i32, Option<String>)>,
    /// Whether there are more of them.
    more: bool,
}

impl Found {
    async fn look(work: &Work<'_>, room: i64) -> Result<Self, Fault> {
        let rows = work.session.query(&TO_LOOK_AT, &[&sql_time(work.now()), &(room + 1)]).await?;
        let room = usize::try_from(room).unwrap_or(0);
        let jobs = rows.iter().take(room).map(|row| {
            let mut cells = Cells::of(row);
            Ok((cells.take()?, (cells.take()?, cells.take()?)))
        });
        Ok(Self { jobs: jobs.collect::<Result<_, Fault>>()?, more: rows.len() > room })
    }

    fn queues(&self) -> BTreeSet<i32> {
        self.jobs.values().map(|(queue, _)| *queue).collect()
    }

    /// The keys of jobs in these queues, in order.
    fn keys(&self, queues: &[i32]) -> BTreeSet<(i32, &str)> {
        let keys = self.jobs.values().filter_map(|(queue, key)| Some((*queue, key.as_deref()?)));
        keys.filter(|(queue, _)| queues.contains(queue)).collect()
    }

    /// The jobs without those under one of these keys, in order.
    fn without(&self, busy: &BTreeSet<(i32, &str)>) -> Vec<i64> {
        let is_busy = |queue: &i32, key: &Option<String>| {
            key.as_deref().is_some_and(|key| busy.contains(&(*queue, key)))
        };
        let jobs = self.jobs.iter().filter(|(_, (queue, key))| !is_busy(queue, key));
        jobs.map(|(id, _)| *id).collect()
    }
}

/// Finished jobs in hand, with the rules of their queues.
struct Bite {
    queues: Queues,
    jobs: Vec<Stored>,
    /// Whether some were left out, because their queue was locked.
    left_out: bool,
}

/// Queues by their numbers; those that were deleted have no rules.
struct Queues {
    rows: BTreeMap<i32, QueueRow>,
    rules: BTreeMap<i32, Arc<Rules>>,
}

impl Queues {
    fn read(work: &Work<'_>, rows: &[Row]) -> Result<Self, Fault> {
        let (mut all, mut rules) = (BTreeMap::new(), BTreeMap::new());
        for row in rows {
            let queue = QueueRow::read(&mut Cells::of(row))?;
            if !queue.deleted {
                rules.insert(
                    queue.id,
                    work.store.catalog.rules(queue.id, queue.version, &queue.record.config)?,
                );
            }
            all.insert(queue.id, queue);
        }
        Ok(Self { rows: all, rules })
    }

    fn rules(&self, stored: &Stored) -> Option<&Rules> {
        self.rules.get(&queue_number(stored.queue)).map(Arc::as_ref)
    }
}

impl Bite {
    /// Locks what was found, in the order in which everybody does: queues, keys, jobs. A job that somebody else has in hand,
    /// or whose key somebody has, is left for the next time. So are the jobs of a queue that is locked, if this transaction
    /// has locks already: it must not wait for another then.
    async fn take(work: &Work<'_>, found: &Found) -> Result<Self, Setback> {
        let named = found.queues();
        let numbers = lock_queues(work, &named).await?;
        let (key_queues, keys): (Vec<i32>, Vec<&str>) = found.keys(&numbers).into_iter().unzip();
        let mut flight = Flight::on(work.session);
        let queues = flight.query(&QUEUES, vec![&numbers]);
        let busy = flight.query(&LOCK_KEYS, vec![&key_queues, &keys]);
        let landed = flight.land().await?;
        let queues = Queues::read(work, landed.rows(queues))?;
        let ids = found.without(&read_keys(landed.rows(busy))?);
        let jobs = work.session.query(&TO_PRUNE, &[&ids, &sql_time(work.now()), &numbers]).await?;
        let jobs = jobs.iter().map(|row| read_done(row, &queues.rows)).collect::<Result<_, _>>()?;
        Ok(Self { queues, jobs, left_out: numbers.len() < named.len() })
    }

    /// Does with each job what its retention says, and tells how many were dropped and how many stripped.
    async fn carry_out(self, work: &Work<'_>, last: bool, tidy: bool) -> Result<(u32, u32), Setback> {
        let (mut changes, mut later) = (Changes::default(), Later::default());
        let (mut dropped, mut stripped) = (0, 0);
        for stored in self.jobs {
            let rules = self.queues.rules(&stored);
            match fate(&stored, rules.map(|rules| &rules.config), work.now()) {
                Fate::Keep { until } => later.push(&stored, sql_time(until)),
                Fate::Strip { .. } => {
                    stripped += 1;
                    changes.jobs.push(JobChange { after: Some(stored.stripped()), before: Some(stored) });
                }
                Fate::Drop => {
                    dropped += 1;
                    changes.jobs.push(JobChange { before: Some(stored), after: None });
                }
            }
        }
        let writes = writes(&changes, &self.queues.rules, &[], work.now());
        let mut flight = Flight::on(work.session);
        writes.add_to(&mut flight);
        later.add_to(&mut flight);
        if tidy {
            flight.query(&FOLD_TALLIES, vec![&TALLIES_MAX]);
            flight.query(&DROP_DELETED_QUEUES, vec![]);
            flight.query(&DROP_ORPHANED_TALLIES, vec![]);
        }
        work.send(flight, last).await?;
        Ok((dropped, stripped))
    }
}

fn read_keys(rows: &[Row]) -> Result<BTreeSet<(i32, &str)>, Fault> {
    let read = |row| {
        let mut cells = Cells::of(row);
        Ok((cells.take()?, cells.take()?))
    };
    rows.iter().map(read).collect()
}

/// Locks the queues of jobs that were found, so that their rules do not change meanwhile, and says which.
async fn lock_queues(work: &Work<'_>, named: &BTreeSet<i32>) -> Result<Vec<i32>, Fault> {
    let numbers: Vec<i32> = named.iter().copied().collect();
    let waits = !work.has_locks();
    let rows = work.session.query(&LOCK_QUEUES, &[&locks::QUEUE, &numbers, &waits]).await?;
    rows.iter().map(|row| Cells::of(row).take()).collect()
}

/// Finished jobs that stay, with the time at which to look at them again.
#[derive(Default)]
struct Later {
    ids: Vec<i64>,
    times: Vec<i64>,
}

impl Later {
    fn push(&mut self, stored: &Stored, look_at: i64) {
        self.ids.push(sql_id(stored.job.id));
        self.times.push(look_at);
    }

    fn add_to<'a>(&'a self, flight: &mut Flight<'a>) {
        if !self.ids.is_empty() {
            flight.query(&LOOK_ANEW, vec![&self.ids, &self.times]);
        }
    }
}
