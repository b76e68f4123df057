//! A sweep: all finished jobs are looked at once, in the order of their ids, because what was known of some of them is wrong.
//!
//! There is one sweep for all queues that need one, and its place is kept in the database: another node goes on where this
//! one stopped. A queue that needs a sweep while one is under way starts it over.

use super::statements::{END_SWEEP, LOCK_PLACE, MARK_PLACE, SWEPT_JOBS, SWEPT_QUEUES, SWEPT_RANGE};
use super::{Later, Queues};
use crate::apply::{Setback, Work, look_at, read_done};
use crate::flight::Flight;
use crate::row::{Cells, sql_time};

/// Gives the next finished jobs of the sweep that is under way new times to look at them, and says whether there was one.
pub(super) async fn sweep(work: &mut Work<'_>, limit: i64) -> Result<bool, Setback> {
    let (mut flight, locks) = work.flight();
    let queues = flight.query(&SWEPT_QUEUES, vec![]);
    let landed = flight.land().await?;
    work.landed(&landed, locks)?;
    if landed.rows(queues).is_empty() {
        return Ok(false);
    }
    // There seems to be one. What it needs is told under its lock.
    let mut flight = Flight::on(work.session);
    let place = flight.query(&LOCK_PLACE, vec![]);
    let queues = flight.query(&SWEPT_QUEUES, vec![]);
    let landed = flight.land().await?;
    let queues = Queues::read(work, landed.rows(queues))?;
    let end = queues.rows.values().filter_map(|row| row.sweep_to).max();
    if let (Some(end), Some(row)) = (end, landed.rows(place).first()) {
        let place: i64 = Cells::of(row).take()?;
        bite(work, &queues, place, end, limit).await?;
    }
    Ok(true)
}

async fn bite(work: &Work<'_>, queues: &Queues, place: i64, end: i64, limit: i64) -> Result<(), Setback> {
    if limit == 0 {
        return Ok(());
    }
    let row = work.session.query_one(&SWEPT_RANGE, &[&place, &end, &limit]).await?;
    let mut cells = Cells::of(&row);
    let (looked_at, last): (i64, Option<i64>) = (cells.take()?, cells.take()?);
    let later = match &last {
        Some(last) => look_anew(work, queues, place, *last).await?,
        None => Later::default(),
    };
    let mut flight = Flight::on(work.session);
    later.add_to(&mut flight);
    match last.as_ref().filter(|_| looked_at == limit) {
        Some(place) => flight.query(&MARK_PLACE, vec![place]),
        None => flight.query(&END_SWEEP, vec![]),
    };
    flight.land().await?;
    Ok(())
}

/// When to look at the jobs of the queues that are swept, of those after `place` up to `last`.
async fn look_anew(work: &Work<'_>, queues: &Queues, place: i64, last: i64) -> Result<Later, Setback> {
    let numbers: Vec<i32> = queues.rows.keys().copied().collect();
    let mut later = Later::default();
    for row in work.session.query(&SWEPT_JOBS, &[&place, &last, &numbers]).await? {
        let stored = read_done(&row, &queues.rows)?;
        later.push(&stored, sql_time(look_at(&stored, queues.rules(&stored), work.now())));
    }
    Ok(later)
}
