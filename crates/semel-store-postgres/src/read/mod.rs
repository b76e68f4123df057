//! Reading: each question is answered by one statement, so that its answer is of one moment; a listing takes a second one
//! for the jobs it found.

mod health;
pub(crate) mod job;
mod key;
mod list;
mod page;
mod queue;
mod record;
mod stats;

use semel_core::ids::JobId;
use semel_core::job::Job;
use semel_core::key::Key;
use semel_core::name::QueueName;
use semel_core::records::QueueRecord;
use semel_store::{Health, JobQuery, KeyRecord, Page, Stats, StoreError};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::patience::Patience;
use crate::row::sql_id;
use crate::session::{Param, Sql};
use crate::store::PostgresStore;
use page::Listing;

/// What a caller hears of a read that failed.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
fn hear(fault: Fault) -> StoreError {
    fault.nothing_done()
}

impl PostgresStore {
    /// The rows of a statement that changes nothing, over another connection if one breaks.
    async fn ask(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut patience = Patience::new(self.options.patience);
        loop {
            let asked = async { self.pool.session_within(&patience).await?.query(sql, params).await };
            match asked.await {
                Ok(rows) => return Ok(rows),
                Err(fault) if patience.again(&fault).await => {}
                Err(fault) => return Err(fault.nothing_done()),
            }
        }
    }

    /// The same for a statement that gives one row at most.
    async fn ask_one(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.ask(sql, params).await?.into_iter().next())
    }

    pub(crate) async fn find_job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let row = self.ask_one(&job::BY_ID, &[&sql_id(id)]).await?;
        row.as_ref().map(job::read).transpose().map_err(hear)
    }

    pub(crate) async fn list_jobs(&self, query: JobQuery) -> Result<Page<Job>, StoreError> {
        let listing = Listing::new(query);
        let mut patience = Patience::new(self.options.patience);
        loop {
            match self.list_once(&listing, &patience).await {
                Ok(page) => return Ok(page),
                Err(fault) if patience.again(&fault).await => {}
                Err(fault) => return Err(fault.nothing_done()),
            }
        }
    }

    async fn list_once(&self, listing: &Listing, patience: &Patience) -> Result<Page<Job>, Fault> {
        let session = self.pool.session_within(patience).await?;
        let found = session.query_text(listing.text(), &listing.params()).await?;
        let found = found.first().ok_or_else(|| Fault::Broken("a listing gave no row".into()))?;
        let found = listing.found(found)?;
        let rows = if found.ids.is_empty() {
            Vec::new()
        } else {
            session.query(&job::BY_IDS, &[&found.ids]).await?
        };
        listing.page(&found, &rows)
    }

    pub(crate) async fn find_key(
        &self,
        queue: &QueueName,
        key: &Key,
    ) -> Result<Option<KeyRecord>, StoreError> {
        let row = self.ask_one(&key::BY_KEY, &[&queue.as_str(), &key.as_str()]).await?;
        let read = |row: &Row| key::read(row, &self.clock);
        row.as_ref().map(read).transpose().map_err(hear)
    }

    pub(crate) async fn find_queue(&self, name: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        let row = self.ask_one(&queue::BY_NAME, &[&name.as_str()]).await?;
        row.as_ref().map(queue::read).transpose().map_err(hear)
    }

    pub(crate) async fn all_queues(&self) -> Result<Vec<QueueRecord>, StoreError> {
        let rows = self.ask(&queue::ALL, &[]).await?;
        rows.iter().map(queue::read).collect::<Result<_, _>>().map_err(hear)
    }

    pub(crate) async fn all_records<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<T>, StoreError> {
        let rows = self.ask(&record::OF_KIND, &[&kind]).await?;
        rows.iter().map(record::read).collect::<Result<_, _>>().map_err(hear)
    }

    pub(crate) async fn count_jobs(&self) -> Result<Stats, StoreError> {
        let rows = self.ask(&stats::COUNTS, &[]).await?;
        let queues = rows.iter().map(|row| stats::read(row, &self.clock)).collect::<Result<_, _>>();
        Ok(Stats { queues: queues.map_err(hear)? })
    }

    pub(crate) async fn store_health(&self) -> Result<Health, StoreError> {
        let row = self.ask_one(&health::HEALTH, &[]).await?;
        row.as_ref().map(health::read).transpose().map_err(hear).map(Option::unwrap_or_default)
    }
}
