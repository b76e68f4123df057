//! The law, by statements of one row each.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Executor, query, query_as, query_scalar, raw_sql};

use super::failure::{again, failed, is_duplicate, is_missing};
use super::row::{self, Cells, held_by, unchanged, whole};
use super::statement::{
    COMPLETE, FORGET, INSERT, PRUNE, READ, READ_COMMITTED, RECOVER, RENEW, REPLACE, VERSION,
};
use super::{MIGRATIONS, SqlxMySql, batch};
use crate::rules::{Decision, Row, decide};
use crate::schema::newer;
use crate::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use crate::time::{Moment, Until, millis};
use crate::{Scope, StoreError};

#[async_trait]
impl Store for SqlxMySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        for migration in MIGRATIONS.into_iter().skip(self.version().await?) {
            self.pool.execute(raw_sql(migration)).await.map_err(failed("making the schema"))?;
        }
        Ok(())
    }

    /// Reads, decides, and writes if nothing has changed meanwhile. Nobody waits for a lock longer than a statement takes,
    /// and replays only read.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        loop {
            let (now, found) = self.read(&claim.scope).await?;
            match decide(found.as_ref(), claim, now) {
                Decision::Answer(answer) => return Ok(answer),
                Decision::Write(row, answer) => {
                    if self.written(&claim.scope, found.as_ref(), &row).await? {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        let question = || held_by(query(RENEW).bind(millis(lease)), holder).execute(&self.pool);
        if again(question).await.map_err(failed("renewing"))?.rows_affected() == 0 {
            return Ok(Hold::Lost);
        }
        let (now, row) = self.read(&holder.scope).await?;
        let row = row.filter(|row| row.is_of(&holder.owner, holder.token) && row.done.is_none());
        Ok(row.map_or(Hold::Lost, |row| Hold::Held(Until::seen(row.until, now))))
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        let question = || held_by(query(COMPLETE).bind(millis(ttl)).bind(result.to_owned()), holder);
        let done = again(|| question().execute(&self.pool)).await.map_err(failed("completing"))?;
        if done.rows_affected() > 0 {
            return Ok(Hold::Held(()));
        }
        let (now, row) = self.read(&holder.scope).await?;
        let ours = |row: &Row| row.lives(now) && row.is_of(&holder.owner, holder.token) && row.done.is_some();
        Ok(held(row.as_ref().is_some_and(ours)))
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let statement = match release {
            Release::Forget => FORGET,
            Release::Recover => RECOVER,
        };
        let question = || held_by(query(statement), holder).execute(&self.pool);
        let done = again(question).await.map_err(failed("releasing"))?;
        Ok(held(done.rows_affected() > 0))
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        batch::mark(&self.pool, scopes, ttl).await
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        batch::lookup(&self.pool, scopes).await
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        let failed = failed("pruning");
        let mut connection = self.pool.acquire().await.map_err(&failed)?;
        connection.execute(READ_COMMITTED).await.map_err(&failed)?;
        let bite = query(PRUNE).bind(limit).execute(&mut *connection).await.map_err(&failed)?;
        Ok(u32::try_from(bite.rows_affected()).unwrap_or(limit))
    }
}

impl SqlxMySql {
    /// The time by the server's clock, and the entry.
    async fn read(&self, scope: &Scope) -> Result<(Moment, Option<Row>), StoreError> {
        let cells: Cells = query_as(READ)
            .bind(scope.consumer.as_str().as_bytes())
            .bind(scope.key.as_str().as_bytes())
            .bind(scope.step.as_str().as_bytes())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("reading an entry"))?;
        row::read(cells)
    }

    /// Writes a row where `before` was; `false` if that is not there any more.
    async fn written(&self, scope: &Scope, before: Option<&Row>, row: &Row) -> Result<bool, StoreError> {
        let question = || match before {
            None => whole(query(INSERT), row, scope),
            Some(before) => unchanged(whole(query(REPLACE), row, scope), before),
        };
        match again(|| question().execute(&self.pool)).await {
            Ok(done) => Ok(done.rows_affected() > 0),
            Err(error) if is_duplicate(&error) => Ok(false),
            Err(error) => Err(failed("claiming")(error)),
        }
    }

    async fn version(&self) -> Result<usize, StoreError> {
        let version = query_scalar::<_, i32>(VERSION).fetch_one(&self.pool).await;
        match version {
            Err(error) if is_missing(&error) => Ok(0),
            version => newer(version.map_err(failed("reading the schema's version"))?, MIGRATIONS.len()),
        }
    }
}

fn held(held: bool) -> Hold<()> {
    if held { Hold::Held(()) } else { Hold::Lost }
}
