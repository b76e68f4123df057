//! When a lease may next have something, and when the next one runs out.

use semel_core::name::QueueName;
use semel_core::time::Timestamp;
use semel_store::StoreError;

use super::statements::{NEXT_DUE, NEXT_EXPIRY};
use crate::fault::Fault;
use crate::row::{Cells, QueueRow, time};
use crate::store::PostgresStore;

impl PostgresStore {
    /// When a lease may next have something: once a job is due and the gate lets one out.
    pub(crate) async fn due_next(&self, name: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        self.find_next_due(name).await.map_err(|fault| fault.nothing_done())
    }

    async fn find_next_due(&self, name: &QueueName) -> Result<Option<Timestamp>, Fault> {
        // Whoever counts too few says too early, which is allowed; so what is remembered of the queue is good enough.
        let seen = self.catalog.last_seen(name);
        let limit = seen.map_or(i64::MAX, |seen| seen.rules.config.concurrency.map_or(0, i64::from));
        let session = self.pool.session().await?;
        let Some(row) = session.query_opt(&NEXT_DUE, &[&name.as_str(), &limit]).await? else {
            return Ok(None);
        };
        let mut cells = Cells::of(&row);
        let now = self.clock.decides(cells.take()?);
        let (due, in_flight): (Option<i64>, i64) = (cells.take()?, cells.take()?);
        let Some(due) = due else { return Ok(None) };
        let queue = QueueRow::read(&mut cells)?;
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let open = queue.record.gate.next_at(&queue.record.config, in_flight, now);
        Ok(open.map(|at| at.max(time(due))))
    }

    /// When the earliest lease runs out.
    pub(crate) async fn expires_next(&self) -> Result<Option<Timestamp>, StoreError> {
        self.find_next_expiry().await.map_err(|fault| fault.nothing_done())
    }

    async fn find_next_expiry(&self) -> Result<Option<Timestamp>, Fault> {
        let session = self.pool.session().await?;
        let row = session.query_one(&NEXT_EXPIRY, &[]).await?;
        Ok(Cells::of(&row).take::<Option<i64>>()?.map(time))
    }
}
