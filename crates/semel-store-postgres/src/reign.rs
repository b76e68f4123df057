//! Which server is the primary, as far as it matters what the one before it had answered.
//!
//! A replica that takes over begins a new timeline, and so does a server that is restored to a point in time; a dump that is
//! loaded makes new tables. Each may lack what was answered last, tokens included. So every connection is asked where it
//! leads, before anybody uses it:
//!
//! ```text
//!   the server that the database names    nothing to do
//!   another one                           it has taken over: tokens go on in a new epoch, and none comes twice
//!   an earlier one than this node knows   an old primary has come back: it is left alone
//!   one that this node has never met      another database than it began with: it is left alone, too
//! ```
//!
//! What goes on in the same timeline is taken for the same server: a copy of its files that was simply started, and the second
//! of two replicas that were promoted from the same timeline.

use std::sync::{Arc, Mutex, MutexGuard};

use semel_store::shared::Exposure;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::fault::Fault;
use crate::locks;
use crate::row::{Cells, job_id, time};
use crate::session::{Link, Sql};

/// The rule of one server: nobody else writes to its timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reign {
    /// What tells one cluster from another; its replicas have it, too.
    system: i64,
    timeline: i64,
    /// What tells a store from its copy that was loaded from a dump: the number of its first table.
    table: i64,
}

impl Reign {
    /// Whether this is the same store, whoever rules.
    fn is_kin_of(self, other: Self) -> bool {
        (self.system, self.table) == (other.system, other.table)
    }
}

/// What this node has seen of reigns. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The latest.
    reign: Option<Reign>,
    /// What may have been lost when it began.
    exposure: Option<Exposure>,
}

/// What a connection says of where it leads.
struct Found {
    here: Reign,
    /// The server that the database names.
    named: Option<Reign>,
    exposure: Option<Exposure>,
}

/// The first part of the name of the file that is being written is the timeline. What the control file says may be older:
/// it is only written with the next checkpoint.
const LOOK: &str = "SELECT (SELECT system_identifier FROM pg_control_system()),
                  ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint,
                  max(tableoid::bigint),
                  max(value) FILTER (WHERE name = 'system'),
                  max(value) FILTER (WHERE name = 'timeline'),
                  max(value) FILTER (WHERE name = 'table'),
                  max(value) FILTER (WHERE name = 'exposed_since'),
                  max(value) FILTER (WHERE name = 'exposed_until'),
                  max(value) FILTER (WHERE name = 'exposed_newest')
             FROM semel.meta";

static LOCK: Sql = Sql { text: "SELECT pg_advisory_xact_lock($1, 0)", types: &[Type::INT4] };

static NOTE: Sql = Sql {
    text: "INSERT INTO semel.meta (name, value)
           VALUES ('system', $1), ('timeline', $2), ('table', $3)
               ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Two servers may have been made of one backup, and each counts on from there. So the epoch is the hour, and tokens begin
/// with its millisecond: later ones are greater, as long as nobody hands out 2^18 of them in a millisecond.
static RAISE_EPOCH: Sql = Sql {
    text: concat!(
        "WITH clock AS MATERIALIZED (SELECT ",
        database_now!(),
        " AS now),
         raised AS (
             UPDATE semel.meta m
                SET value = greatest(m.value + 1, clock.now / 3600000)
               FROM clock
              WHERE m.name = 'epoch'
             RETURNING m.value
         )
         SELECT value,
                setval('semel.token',
                       greatest((value << 40) + ((clock.now % 3600000) << 18) + 1,
                                (SELECT last_value + 1 FROM semel.token)),
                       false)
           FROM raised, clock"
    ),
    types: &[],
};

/// What was answered between the last transaction that got here and now may be missing. A server that was restored does not
/// know the time of that transaction, or that of another; then it is that of the last heartbeat. Clocks of servers differ, so
/// the jobs that were there are told by the newest id.
static EXPOSE: Sql = Sql {
    text: concat!(
        "INSERT INTO semel.meta (name, value)
         SELECT 'exposed_since',
                coalesce(least(floor(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000)::bigint,
                               (SELECT max(seen_at) FROM semel.node)),
                         0)
          UNION ALL
         SELECT 'exposed_until', ",
        database_now!(),
        " UNION ALL
         SELECT 'exposed_newest', coalesce((SELECT max(id) FROM semel.job), 0)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    ),
    types: &[],
};

/// The exposed time, for people.
static EXPOSED: Sql = Sql {
    text:
        "SELECT to_char(to_timestamp(value / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')
             FROM semel.meta
            WHERE name IN ('exposed_since', 'exposed_until')
            ORDER BY name",
    types: &[],
};

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("the lock is never held across a panic")
    }

    /// Whether a later one has been seen since.
    pub(crate) fn is_over(&self, reign: Reign) -> bool {
        self.lock().reign.is_some_and(|seen| seen.timeline > reign.timeline)
    }

    /// The latest time of which the store may lack what it answered.
    pub(crate) fn exposure(&self) -> Option<Exposure> {
        self.lock().exposure
    }

    /// Takes down a reign, unless it is over, or that of a server which has nothing to do with those seen so far.
    fn admit(&self, here: Reign) -> Result<(), Fault> {
        let mut latest = self.lock();
        match latest.reign {
            Some(seen) if !seen.is_kin_of(here) => Err(Fault::Unreachable(
                "this is another database than the one this node began with, or it was loaded from a dump since: restart the \
                 node to use it"
                    .into(),
            )),
            Some(seen) if seen.timeline > here.timeline => Err(Fault::Unreachable(format!(
                "this server was the primary once (timeline {}), and another has taken over (timeline {}): it is left \
                 alone; stop it, or make it a replica",
                here.timeline, seen.timeline
            ))),
            _ => {
                latest.reign = Some(here);
                Ok(())
            }
        }
    }
}

/// Asks a connection that nobody has used where it leads, and does what follows from that. Nothing, if it cannot tell.
pub(crate) async fn greet(link: &Link, memory: &Memory) -> Result<Option<Reign>, Fault> {
    let Some(found) = look(link).await? else { return Ok(None) };
    memory.admit(found.here)?;
    let exposure = match found.named {
        Some(named) if named != found.here => succeed(link, found.here).await?,
        _ => found.exposure,
    };
    memory.lock().exposure = exposure;
    Ok(Some(found.here))
}

/// Has the database name the server at the other end, if it names none. From then on another one is noticed.
pub(crate) async fn establish(link: &Link) -> Result<(), Fault> {
    match look(link).await? {
        Some(Found { here, named: None, .. }) => succeed(link, here).await.map(drop),
        Some(_) => Ok(()),
        None => {
            tracing::warn!(
                "the database does not say which server it is on: a failover that loses what was answered, or a restored \
                 backup, will not be noticed; on PostgreSQL, GRANT EXECUTE ON FUNCTION pg_control_system() to this role"
            );
            Ok(())
        }
    }
}

/// The latest time of which the store may lack what it answered, for somebody who is no node.
pub(crate) async fn exposure(link: &Link) -> Result<Option<Exposure>, Fault> {
    Ok(look(link).await?.and_then(|found| found.exposure))
}

/// Looks where a connection leads; nothing, if there is no store yet. Databases that only speak PostgreSQL's language may have
/// no such thing as a timeline: they have to see for themselves that nothing which was answered is lost.
async fn look(link: &Link) -> Result<Option<Found>, Fault> {
    // Asked once per connection, so not worth preparing.
    let rows = match link.query_text(LOOK, &[]).await {
        Err(Fault::Refused { state, .. }) if is_not_offered(&state) => return Ok(None),
        looked => looked?,
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let mut cells = Cells::of(row);
    let here = read_reign(&mut cells)?.ok_or_else(|| Fault::damaged("meta", 0, "there is no epoch"))?;
    Ok(Some(Found { here, named: read_reign(&mut cells)?, exposure: read_exposure(&mut cells)? }))
}

fn read_reign(cells: &mut Cells<'_>) -> Result<Option<Reign>, Fault> {
    let (system, timeline, table): (Option<i64>, _, _) = (cells.take()?, cells.take()?, cells.take()?);
    Ok(system.zip(timeline).zip(table).map(|((system, timeline), table)| Reign { system, timeline, table }))
}

fn read_exposure(cells: &mut Cells<'_>) -> Result<Option<Exposure>, Fault> {
    let (since, until, newest): (Option<i64>, _, _) = (cells.take()?, cells.take()?, cells.take()?);
    let Some(((since, until), newest)) = since.zip(until).zip(newest) else { return Ok(None) };
    Ok(Some(Exposure { since: time(since), until: time(until), newest: job_id(newest)? }))
}

fn is_not_offered(state: &SqlState) -> bool {
    let states = [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    states.contains(state)
}

/// Makes this the server that the database names, and says what may have been lost. The first of all nodes to come does it,
/// before it hands out a token.
async fn succeed(link: &Link, here: Reign) -> Result<Option<Exposure>, Fault> {
    link.begin().await?;
    link.query(&LOCK, &[&locks::REIGN]).await?;
    let named = look(link).await?.and_then(|found| found.named);
    if named == Some(here) {
        link.rollback().await?;
        return exposure(link).await;
    }
    if let Some(before) = named {
        raise_epoch(link, before, here).await?;
    }
    link.query(&NOTE, &[&here.system, &here.timeline, &here.table]).await?;
    link.commit().await?;
    exposure(link).await
}

async fn raise_epoch(link: &Link, before: Reign, here: Reign) -> Result<(), Fault> {
    link.query(&EXPOSE, &[]).await?;
    let epoch: i64 = Cells::of(&link.query_one(&RAISE_EPOCH, &[]).await?).take()?;
    let exposed = link.query(&EXPOSED, &[]).await?;
    let exposed: Vec<&str> = exposed.iter().map(|row| Cells::of(row).take()).collect::<Result<_, _>>()?;
    tracing::warn!(
        epoch,
        timeline = here.timeline,
        before = before.timeline,
        exposed = exposed.join(" to "),
        "another server is the primary, or a backup was restored: unless it was replicated synchronously, what was answered \
         in the exposed time may be missing, and jobs from before it may have been done; they are delivered as possibly \
         applied"
    );
    Ok(())
}
