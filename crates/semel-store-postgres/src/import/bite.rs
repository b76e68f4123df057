//! Bites: some jobs with their keys and traces, and the place up to which the move has come, in one transaction.

use semel_core::ids::JobId;
use semel_core::time::Timestamp;
use semel_store::StoreError;
use semel_store::working::{Changes, JobChange, Stored};
use tokio_postgres::types::Type;

use super::marker::{Marker, STEP};
use super::{Move, options, stopped};
use crate::apply::{self, Writes};
use crate::catalog::queue_number;
use crate::days::day_of;
use crate::fault::Fault;
use crate::flight::Flight;
use crate::patience::Patience;
use crate::row::{columns, sql_id};
use crate::session::Sql;

/// Days whose partitions one transaction makes: each takes a dozen locks, of which a server has a few thousand for all.
const DAYS_MAX: usize = 16;

/// Jobs are kept by the day, as if they had been published here.
static MAKE_DAYS: Sql =
    Sql { text: "SELECT semel.make_day(day) FROM unnest($1) AS day", types: &[Type::INT4_ARRAY] };

columns! {
    /// Jobs with their keys.
    KeyColumns {
        queue: i32 => INT4_ARRAY,
        key: String => TEXT_ARRAY,
        id: i64 => INT8_ARRAY,
    }
}

/// Jobs come in the order of their ids, so those of this bite are newer than any the key has.
static ADD_KEYS: Sql = Sql {
    text: "INSERT INTO semel.key AS known (queue, key, ids)
           SELECT queue, key, array_agg(id ORDER BY id)
             FROM unnest($1, $2, $3) AS u (queue, key, id)
            GROUP BY queue, key
               ON CONFLICT (queue, key) DO UPDATE SET ids = known.ids || excluded.ids",
    types: KeyColumns::TYPES,
};

impl KeyColumns {
    /// The keys of these jobs.
    pub(super) fn of<'a>(jobs: impl IntoIterator<Item = &'a Stored>) -> Self {
        let mut columns = Self::default();
        for Stored { job, queue, .. } in jobs {
            if let Some(key) = &job.spec.key {
                columns.queue.push(queue_number(*queue));
                columns.key.push(key.to_string());
                columns.id.push(sql_id(job.id));
            }
        }
        columns
    }
}

/// What one transaction writes.
struct Bite {
    from: i64,
    to: i64,
    days: Vec<i32>,
    keys: KeyColumns,
    writes: Writes,
}

impl Move {
    /// Moves a page of jobs, and says up to where. Each transaction goes on from the place where the one before ended.
    pub(super) async fn bites(&self, page: Vec<Stored>, mut place: JobId) -> Result<JobId, StoreError> {
        let mut rest = page.into_iter().peekable();
        while rest.peek().is_some() {
            let mut days = Vec::new();
            let mut jobs = Vec::new();
            while let Some(stored) = rest.next_if(|stored| has_room(&mut days, stored.job.id)) {
                jobs.push(stored);
            }
            let to = jobs.last().map_or(place, |stored: &Stored| stored.job.id);
            self.take(&self.bite(jobs, days, place, to)).await?;
            place = to;
        }
        Ok(place)
    }

    fn bite(&self, jobs: Vec<Stored>, days: Vec<i32>, from: JobId, to: JobId) -> Bite {
        let keys = KeyColumns::of(&jobs);
        let made = |stored| JobChange { before: None, after: Some(stored) };
        let changes = Changes { jobs: jobs.into_iter().map(made).collect(), ..Changes::default() };
        // Their retention is reckoned from the beginning of time, so that nothing depends on when they are moved.
        let writes = apply::writes(&changes, &self.rules, &[], Timestamp::default());
        Bite { from: sql_id(from), to: sql_id(to), days, keys, writes }
    }

    /// Takes a bite, over another connection if one breaks. Whether a commit whose answer was lost has happened is seen
    /// from the place.
    async fn take(&self, bite: &Bite) -> Result<(), StoreError> {
        let mut patience = Patience::new(options().patience);
        loop {
            let Err(fault) = self.try_to_take(bite).await else { return Ok(()) };
            if !patience.again(&fault).await {
                return Err(stopped(&fault));
            }
        }
    }

    async fn try_to_take(&self, bite: &Bite) -> Result<(), Fault> {
        let session = self.pool.session().await?;
        let mut flight = Flight::on(&session);
        flight.begin();
        let step = flight.query(&STEP, vec![&bite.from, &bite.to]);
        flight.query(&MAKE_DAYS, vec![&bite.days]);
        let landed = flight.land().await?;
        if landed.rows(step).is_empty() {
            session.rollback().await?;
            let place = Marker::read(&session).await?.map(|marker| sql_id(marker.place));
            let elsewhere = || Fault::Broken("another move goes on in this database".into());
            return if place == Some(bite.to) { Ok(()) } else { Err(elsewhere()) };
        }
        let mut flight = Flight::on(&session);
        flight.query(&ADD_KEYS, bite.keys.params());
        bite.writes.add_to(&mut flight);
        flight.commit();
        flight.land().await.map(drop)
    }
}

/// Whether a job may still go into a transaction that makes the partitions of these days, its own included from then on.
fn has_room(days: &mut Vec<i32>, id: JobId) -> bool {
    let day = day_of(id.time());
    if days.last() != Some(&day) {
        if days.len() == DAYS_MAX {
            return false;
        }
        days.push(day);
    }
    true
}
