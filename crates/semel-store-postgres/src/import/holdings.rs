//! Everything but the jobs, as it is in this database, and whether that is what was moved.

use std::collections::BTreeMap;

use semel_core::ids::Token;
use semel_core::records::{ApiKeyRecord, ScheduleRecord};
use semel_core::replay::ReplayRecord;
use semel_store::transfer::{Holdings, KeptQueue};
use semel_store::working::QueueId;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::{Census, Differences, Move};
use crate::catalog::queue_id;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::row::{Cells, QueueRow, is_free, queue_columns, sql_id, sql_token};
use crate::session::Sql;

static QUEUES: Sql = Sql {
    text: concat!("SELECT ", queue_columns!(), ", q.free, q.paused FROM semel.queue AS q ORDER BY q.id"),
    types: &[],
};

static RECORDS: Sql =
    Sql { text: "SELECT kind, name, body FROM semel.record ORDER BY kind, name", types: &[] };

/// The number of the next queue, the next token, the highest id there ever was, and the last that was made in SQL.
static NEXT: Sql = Sql {
    text: "SELECT (SELECT last_value + is_called::int FROM semel.queue_id_seq),
                  (SELECT last_value + is_called::int FROM semel.token),
                  coalesce(greatest((SELECT max(id) FROM semel.job), (SELECT max(last_id) FROM semel.lane)), 0),
                  (SELECT ((last_value >> 12) << 22) | (semel.sql_lane() << 12) | (last_value & 4095)
                     FROM semel.sql_place)",
    types: &[],
};

/// Everything but the jobs.
#[derive(Debug, Default)]
pub(super) struct There {
    queues: BTreeMap<QueueId, Found>,
    schedules: BTreeMap<String, ScheduleRecord>,
    api_keys: BTreeMap<String, ApiKeyRecord>,
    replays: BTreeMap<String, ReplayRecord>,
    next_queue: i64,
    next_token: i64,
    highest_id: i64,
    highest_id_in_sql: i64,
}

/// A queue, and whether the columns that follow from the others do.
#[derive(Debug)]
struct Found {
    queue: KeptQueue,
    follows: bool,
}

impl Move {
    /// Reads it. As long as a move is not finished its queues are `hidden`.
    pub(super) async fn read_holdings(&self, hidden: bool) -> Result<There, Fault> {
        let session = self.pool.session().await?;
        let mut flight = Flight::on(&session);
        let queues = flight.query(&QUEUES, vec![]);
        let records = flight.query(&RECORDS, vec![]);
        let next = flight.query(&NEXT, vec![]);
        let landed = flight.land().await?;
        let mut there = There::default();
        landed.rows(queues).iter().try_for_each(|row| there.add_queue(row))?;
        landed.rows(records).iter().try_for_each(|row| there.add_record(row))?;
        for row in landed.rows(next) {
            let mut cells = Cells::of(row);
            (there.next_queue, there.next_token) = (cells.take()?, cells.take()?);
            (there.highest_id, there.highest_id_in_sql) = (cells.take()?, cells.take()?);
        }
        if hidden {
            there.unveil(&self.holdings);
        }
        Ok(there)
    }
}

impl There {
    fn add_queue(&mut self, row: &Row) -> Result<(), Fault> {
        let mut cells = Cells::of(row);
        let QueueRow { id, record, deleted, .. } = QueueRow::read(&mut cells)?;
        let (free, paused): (bool, bool) = (cells.take()?, cells.take()?);
        let follows = free == is_free(&record.config, &record.gate) && paused == record.gate.paused;
        let queue = KeptQueue { id: queue_id(id), record, deleted };
        self.queues.insert(queue.id, Found { queue, follows });
        Ok(())
    }

    /// Shows the queues as they will be when the move is finished.
    fn unveil(&mut self, moved: &Holdings) {
        for queue in moved.queues.iter().filter(|queue| !queue.deleted) {
            if let Some(found) = self.queues.get_mut(&queue.id) {
                found.follows &= found.queue.deleted;
                found.queue.deleted = false;
            }
        }
    }

    fn add_record(&mut self, row: &Row) -> Result<(), Fault> {
        let mut cells = Cells::of(row);
        let (kind, name, body): (&str, String, &str) = (cells.take()?, cells.take()?, cells.take()?);
        match kind {
            "schedule" => drop(self.schedules.insert(name, read(body)?)),
            "api_key" => drop(self.api_keys.insert(name, read(body)?)),
            "replay" => drop(self.replays.insert(name, read(body)?)),
            other => return Err(Fault::damaged("record", 0, &format!("{other} is no kind of record"))),
        }
        Ok(())
    }

    /// The counts of it.
    pub(super) fn census(&self) -> Census {
        let records = [self.schedules.len(), self.api_keys.len(), self.replays.len()];
        Census::new(self.queues.values().map(|found| &found.queue), records)
    }

    /// Where it is not what was moved.
    pub(super) fn differences(&self, moved: &Holdings) -> Differences {
        let mut found = Differences::default();
        self.compare_queues(moved, &mut found);
        compare("schedule", moved.schedules.iter().map(|r| (&r.name, r)), &self.schedules, &mut found);
        compare("API key", moved.api_keys.iter().map(|r| (&r.id, r)), &self.api_keys, &mut found);
        compare("replay", moved.replays.iter().map(|r| (&r.id, r)), &self.replays, &mut found);
        let highest_queue = moved.queues.iter().map(|queue| queue.id.0).max().unwrap_or(0);
        found.require(u64::try_from(self.next_queue).is_ok_and(|next| next > highest_queue), || {
            "the next queue would get the number of one that was moved".into()
        });
        found.require(self.next_token > sql_token(Token::first(moved.epoch.saturating_add(1))), || {
            "the next token would not be above those of the store that was moved".into()
        });
        let highest_id = self.highest_id.min(self.highest_id_in_sql);
        found.require(highest_id >= sql_id(moved.last_id), || {
            "the next id might not be above those of the store that was moved".into()
        });
        found
    }

    fn compare_queues(&self, moved: &Holdings, differences: &mut Differences) {
        for queue in &moved.queues {
            let name = &queue.record.name;
            match self.queues.get(&queue.id) {
                None => differences.add(|| format!("queue {name} is missing")),
                Some(found) => differences
                    .require(found.follows && found.queue == *queue, || format!("queue {name} is another")),
            }
        }
        let more = self.queues.len().saturating_sub(moved.queues.len());
        differences.require(more == 0, || format!("{more} queues are there, and should not be"));
    }
}

fn compare<'a, T: PartialEq + 'a>(
    kind: &str,
    moved: impl Iterator<Item = (&'a String, &'a T)>,
    there: &BTreeMap<String, T>,
    differences: &mut Differences,
) {
    let mut count = 0;
    for (name, record) in moved {
        count += 1;
        match there.get(name) {
            None => differences.add(|| format!("{kind} {name} is missing")),
            Some(found) => differences.require(found == record, || format!("{kind} {name} is another")),
        }
    }
    differences
        .require(there.len() <= count, || format!("there are {} of kind {kind}, not {count}", there.len()));
}

fn read<T: DeserializeOwned>(body: &str) -> Result<T, Fault> {
    serde_json::from_str(body).map_err(|e| Fault::damaged("record", 0, &format!("it cannot be read: {e}")))
}
