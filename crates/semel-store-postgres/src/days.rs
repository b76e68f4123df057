//! The partitions of `semel.job` and `semel.done`: one of each per day, made some days ahead, dropped when they are empty.
//!
//! A job that is published on a day without partitions goes to the default one. Nothing is lost by that, but it has to be
//! deleted row by row one day, where a partition is dropped at once.

use semel_core::ids::JobId;
use semel_core::time::{Millis, Timestamp};
use tokio_postgres::types::Type;

use crate::connect::Pool;
use crate::fault::Fault;
use crate::locks;
use crate::row::Cells;
use crate::session::{Session, Sql};
use crate::store::PostgresStore;

/// How often the partitions are looked after: often enough to fail a few times in a day.
const TEND_EVERY: Millis = Millis::from_hours(1);

/// A new partition needs its whole table for a moment. Whoever waits for that makes all others wait behind it, so it gives up
/// soon: there are days left to try again.
static LOCK: Sql = Sql {
    text: "SELECT set_config('lock_timeout', '200ms', true), pg_advisory_xact_lock($1, 1)",
    types: &[Type::INT4],
};

static MISSING: Sql = Sql {
    text: "SELECT count(*) FROM generate_series($1, $2) AS day
           WHERE to_regclass('semel.job_' || to_char(date '2025-01-01' + day, 'YYYYMMDD')) IS NULL",
    types: &[Type::INT4, Type::INT4],
};

static MAKE: Sql = Sql {
    text: "SELECT count(*) FILTER (WHERE semel.make_day(day)) FROM generate_series($1, $2) AS day",
    types: &[Type::INT4, Type::INT4],
};

/// Makes the partitions from today to so many days ahead that are not there, and says how many days that were.
pub(crate) async fn make(session: &Session, now: Timestamp, ahead: u32) -> Result<i64, Fault> {
    if ahead == 0 {
        return Ok(0);
    }
    let (first, last) = (day_of(now), day_of(now.plus(Millis::from_days(ahead.into()))));
    let missing: i64 = Cells::of(&session.query_one(&MISSING, &[&first, &last]).await?).take()?;
    if missing == 0 {
        return Ok(0);
    }
    session.begin().await?;
    session.query(&LOCK, &[&locks::MIGRATE]).await?;
    let made = Cells::of(&session.query_one(&MAKE, &[&first, &last]).await?).take()?;
    session.commit().await?;
    Ok(made)
}

static DROP: Sql = Sql { text: "SELECT semel.drop_empty_days($1)", types: &[Type::INT4] };

/// Drops the partitions of days that are past and of which nothing is left, and says how many days that were.
pub(crate) async fn drop_empty(session: &Session, now: Timestamp) -> Result<i32, Fault> {
    // Yesterday's is left alone: ids of it may still be on their way.
    let before = day_of(now) - 1;
    session.begin().await?;
    session.query(&LOCK, &[&locks::MIGRATE]).await?;
    let dropped = Cells::of(&session.query_one(&DROP, &[&before]).await?).take()?;
    session.commit().await?;
    Ok(dropped)
}

impl PostgresStore {
    /// Looks after the partitions, if it is time to, while the caller goes on: makes those of the coming days and drops those
    /// that are empty. Who prunes does it, so on most stores it is one node.
    pub(crate) fn tend_days(&self) {
        let now = self.clock.now();
        let mut next = self.tend_days_at.lock().expect("the lock is never held across a panic");
        if now >= *next {
            *next = now.plus(TEND_EVERY);
            tokio::spawn(tend(self.pool.clone(), now, self.options.days_ahead));
        }
    }
}

/// A failure is nobody's: it is tried again in an hour, and there are days left.
async fn tend(pool: Pool, now: Timestamp, ahead: u32) {
    let tended = async {
        let session = pool.session().await?;
        make(&session, now, ahead).await?;
        drop_empty(&session, now).await
    };
    if let Err(fault) = tended.await {
        tracing::warn!(%fault, "the partitions of past and coming days were not looked after");
    }
}

/// The number of a day, as `semel.make_day` counts them: from the time at which ids begin.
pub(crate) fn day_of(time: Timestamp) -> i32 {
    let per_day = JobId::first_at(JobId::ZERO.time().plus(Millis::from_days(1))).raw();
    i32::try_from(JobId::first_at(time).raw() / per_day).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_the_first_id() {
        assert_eq!(day_of(JobId::ZERO.time()), 0);
        let new_year_2026 = Timestamp::from_millis(1_767_225_600_000);
        assert_eq!(day_of(new_year_2026), 365);
        assert_eq!(day_of(Timestamp::from_millis(1_767_225_600_000 - 1)), 364);
    }
}
