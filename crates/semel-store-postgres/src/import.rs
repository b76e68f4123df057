//! Moving another store into this database: everything it keeps, in bites, each of which commits together with the place up
//! to which the move has come. So it can be killed at any moment and goes on where it stopped.
//!
//! ```text
//!   begin    queues, records, epoch, highest id, and the row of semel.move: one transaction
//!   bites    jobs in the order of their ids, with their keys and traces, and the place: one transaction each
//!   compare  both sides are read from end to end
//!   finish   the queues are shown, semel.move says so, and nodes may join
//! ```
//!
//! A job gets into its rows as if it had just been made here ([`crate::apply::writes`]), so nothing but that knows what they
//! look like. Leases are not moved. Whoever holds one of the old store is refused as stale: the tokens of this one go on
//! above those.

mod begin;
mod bite;
mod census;
mod compare;
mod differences;
mod holdings;
mod marker;
mod totals;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::JobId;
use semel_core::queue::Rules;
use semel_store::transfer::{Holdings, Source};
use semel_store::{Progress, StoreError, Watcher};
use serde::Serialize;
use tokio_postgres::config::Host;

pub use census::{Census, QueueCensus};
pub use differences::Differences;
pub(crate) use marker::Marker;

use crate::address::Address;
use crate::catalog::queue_number;
use crate::connect::Pool;
use crate::fault::Fault;
use crate::migrate::{self, Migration};
use crate::options::Options;
use crate::survey;
use begin::Standing;
use walk::{Step, Walk};

/// What a move did, and what was found when both sides were compared.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether it went on where an earlier run had stopped.
    pub resumed: bool,
    /// Jobs that this run moved.
    pub moved: u64,
    /// What the other store keeps.
    pub source: Census,
    /// What this one keeps.
    pub target: Census,
    /// Where they differ.
    pub differences: Differences,
}

/// What a move would do.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// How the database stands.
    pub target: Target,
    /// The migrations that it lacks.
    #[serde(skip)]
    pub migrations: Vec<Migration>,
    /// What the other store keeps.
    pub source: Census,
}

/// How a database stands to a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// It has nothing in it.
    Empty,
    /// A move from the same store has begun, and goes on.
    Begun,
    /// The store has been moved, and both sides were the same then.
    Moved,
}

/// The connections of a move: one that works, and one in reserve for when it breaks.
fn options() -> Options {
    Options {
        node_name: "move".into(),
        connections: 2,
        // Nothing here is worth a name, and so a pooler is no matter.
        prepare: false,
        // A bite is many times a batch, and nobody waits for it.
        statement_timeout: Duration::from_mins(10),
        lock_timeout: Duration::from_mins(1),
        // A server that restarts or fails over is back within it.
        patience: Duration::from_mins(2),
        days_ahead: 0,
        ..Options::default()
    }
}

/// What is needed to put jobs into rows, and to know what their rows should look like.
struct Move {
    pool: Pool,
    holdings: Holdings,
    rules: BTreeMap<i32, Arc<Rules>>,
}

impl Move {
    fn new(url: &str, holdings: Holdings) -> Result<Self, StoreError> {
        let mut rules = BTreeMap::new();
        // The jobs of a deleted queue have no rules any more.
        for queue in holdings.queues.iter().filter(|queue| !queue.deleted) {
            let made = Rules::new(queue.record.config.clone()).map_err(|e| {
                let name = &queue.record.name;
                StoreError::Corrupt(format!("the settings of queue {name} are not valid: {e}"))
            })?;
            rules.insert(queue_number(queue.id), Arc::new(made));
        }
        Ok(Self { pool: Pool::new(url, &options())?, holdings, rules })
    }

    fn rules(&self, queue: i32) -> Option<&Rules> {
        self.rules.get(&queue).map(Arc::as_ref)
    }

    /// Moves the jobs above `place`, and says how many they were; so many are `through` already.
    async fn jobs(
        &self,
        source: Box<dyn Source>,
        place: JobId,
        through: u64,
        watch: Watcher<'_>,
    ) -> Result<(Box<dyn Source>, u64), StoreError> {
        let (mut walk, mut place, mut moved) = (Walk::start(source, place), place, 0);
        loop {
            match walk.next().await? {
                Step::End(source) => return Ok((source, moved)),
                Step::Page(page, rest) => {
                    let jobs = u64::try_from(page.len()).unwrap_or(u64::MAX);
                    place = self.bites(page, place).await?;
                    moved += jobs;
                    let done = through + moved;
                    watch(Progress { step: "moving jobs", done, total: self.holdings.jobs.max(done) });
                    walk = rest;
                }
            }
        }
    }
}

/// Moves everything that `source` keeps into the database at `url`, or goes on with it, and compares both sides.
///
/// The database must be empty, or one into which a move of the same store has begun. Nodes can join it when both sides were
/// found to be the same. A store that was moved before is not compared again: nodes may have worked on it since.
pub async fn import(
    url: &str,
    mut source: Box<dyn Source>,
    watch: Watcher<'_>,
) -> Result<Option<Report>, StoreError> {
    let this = Move::new(url, source.holdings()?)?;
    migrate::migrate(url).await?;
    let (place, through, resumed) = match this.begin().await? {
        Standing::Begun => (JobId::ZERO, 0, false),
        Standing::Under(place, through) => (place, through, true),
        Standing::Moved => return Ok(None),
    };
    let (source, moved) = this.jobs(source, place, through, watch).await?;
    this.tidy(watch).await?;
    let found = this.compare(source, true, watch).await?;
    if found.differences.is_empty() {
        this.finish().await?;
    }
    Ok(Some(Report { resumed, moved, ..found }))
}

/// Compares everything that `source` keeps with the database at `url`, into which it has been moved.
pub async fn verify(
    url: &str,
    mut source: Box<dyn Source>,
    watch: Watcher<'_>,
) -> Result<Report, StoreError> {
    let this = Move::new(url, source.holdings()?)?;
    if this.survey().await? != Target::Moved {
        let place = &this.holdings.origin.place;
        return Err(StoreError::Open(format!(
            "{place} has not been moved there, or not to the end: run `semel move` without --verify"
        )));
    }
    this.compare(source, false, watch).await
}

/// Reads everything that `source` keeps, and says what moving it into the database at `url` would take. Changes nothing.
pub async fn plan(url: &str, mut source: Box<dyn Source>, watch: Watcher<'_>) -> Result<Plan, StoreError> {
    let this = Move::new(url, source.holdings()?)?;
    let migrations = migrate::pending(url).await?;
    let target = this.survey().await?;
    let mut census = Census::of(&this.holdings);
    let mut walk = Walk::start(source, JobId::ZERO);
    while let Step::Page(page, rest) = walk.next().await? {
        page.iter().for_each(|stored| census.add(stored));
        let total = this.holdings.jobs.max(census.jobs);
        watch(Progress { step: "reading jobs", done: census.jobs, total });
        walk = rest;
    }
    Ok(Plan { target, migrations, source: census })
}

/// Where a database is, for people to read: its address without user and password.
pub fn name_of(url: &str) -> Result<String, StoreError> {
    let config = Address::parse(url)?.config;
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<_> = config.get_hosts().iter().map(host).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    Ok(format!("{}/{database}", hosts.join(",")))
}

/// What is said when the database failed on the way.
fn stopped(fault: &Fault) -> StoreError {
    StoreError::Open(format!(
        "the move has stopped: {fault}; what is through stays: run the same command again, and it goes on from there"
    ))
}

/// What is said when the database could not be opened or looked at.
fn not_opened(fault: &Fault) -> StoreError {
    survey::not_opened(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_without_its_password() {
        let name = |url| name_of(url).unwrap();
        assert_eq!(name("postgres://me:hunter2@db.internal:5433/semel?sslmode=require"), "db.internal/semel");
        assert_eq!(name("host=/run/postgresql user=me password=hunter2"), "/run/postgresql/me");
        assert_eq!(name("postgres://me@one,two/semel"), "one,two/semel");
        assert!(!name_of("postgres://me:hunter2@h:port/d").unwrap_err().to_string().contains("hunter2"));
    }
}
