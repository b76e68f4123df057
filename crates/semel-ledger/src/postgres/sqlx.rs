//! With `sqlx`.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgDatabaseError};
use sqlx::query::QueryAs;
use sqlx::{Executor, PgConnection, PgPool, Postgres, query, query_as, query_scalar, raw_sql};

use super::MIGRATIONS;
use super::answer::{Asked, ClaimCells, LookupCells, claimed, columns, kept, record};
use super::state::kind;
use super::statement::{ALONE, CLAIM, COMPLETE, EXISTS, LOOKUP, MARK, PRUNE, RELEASE, RENEW, VERSION};
use crate::key::Scope;
use crate::schema::newer;
use crate::store::{Claim, Claimed, Hold, Holder, Record, Release, Store};
use crate::time::{Moment, Until, millis};
use crate::{StoreError, StoreErrorKind};

/// A ledger in PostgreSQL, through `sqlx`.
#[derive(Debug, Clone)]
pub struct SqlxPostgres {
    pool: PgPool,
}

impl SqlxPostgres {
    /// With the application's own pool.
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// The pool it was made with.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

#[async_trait]
impl Store for SqlxPostgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn ensure_schema(&self) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(failed("connecting"))?;
        if version(&mut connection).await? == MIGRATIONS.len() {
            return Ok(());
        }
        migrated(&mut connection).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let asked = Asked::of(claim)?;
        let question = query_as::<_, ClaimCells>(CLAIM)
            .bind(claim.scope.consumer.as_str())
            .bind(claim.scope.key.as_str())
            .bind(claim.scope.step.as_str())
            .bind(claim.owner.as_str())
            .bind(asked.fence)
            .bind(asked.fingerprint)
            .bind(asked.lease)
            .bind(asked.spent)
            .bind(asked.window)
            .bind(asked.ttl);
        claimed(question.fetch_one(&self.pool).await.map_err(failed("claiming"))?)
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Hold<Until>, StoreError> {
        let question = of(query_as::<_, (i64, i64)>(RENEW), holder)?.bind(millis(lease));
        let row = question.fetch_optional(&self.pool).await.map_err(failed("renewing"))?;
        Ok(row.map_or(Hold::Lost, |(until, now)| {
            Hold::Held(Until::seen(Moment::from_millis(until), Moment::from_millis(now)))
        }))
    }

    async fn complete(&self, holder: &Holder, result: &str, ttl: Duration) -> Result<Hold<()>, StoreError> {
        let question = of(query_as::<_, (bool,)>(COMPLETE), holder)?.bind(result).bind(millis(ttl));
        question.fetch_one(&self.pool).await.map(held).map_err(failed("completing"))
    }

    async fn release(&self, holder: &Holder, release: Release) -> Result<Hold<()>, StoreError> {
        let question = of(query_as::<_, (bool,)>(RELEASE), holder)?.bind(release == Release::Forget);
        question.fetch_one(&self.pool).await.map(held).map_err(failed("releasing"))
    }

    async fn mark(&self, scopes: &[Scope], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let [consumers, keys, steps] = columns(scopes);
        let question = query_scalar(MARK).bind(consumers).bind(keys).bind(steps).bind(millis(ttl));
        question.fetch_all(&self.pool).await.map_err(failed("marking"))
    }

    async fn lookup(&self, scopes: &[Scope]) -> Result<Vec<Option<Record>>, StoreError> {
        let [consumers, keys, steps] = columns(scopes);
        let question = query_as::<_, LookupCells>(LOOKUP).bind(consumers).bind(keys).bind(steps);
        let rows = question.fetch_all(&self.pool).await.map_err(failed("looking up"))?;
        rows.into_iter().map(record).collect()
    }

    async fn prune(&self, limit: u32) -> Result<u32, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let count: i32 =
            query_scalar(PRUNE).bind(limit).fetch_one(&self.pool).await.map_err(failed("pruning"))?;
        u32::try_from(count)
            .map_err(|_| StoreError::new(StoreErrorKind::Corrupt, "pruning: a negative count"))
    }
}

/// Runs what is missing, each migration in a transaction of its own. Whoever comes second waits, and finds it done.
async fn migrated(connection: &mut PgConnection) -> Result<(), StoreError> {
    let failed = failed("making the schema");
    for (index, migration) in MIGRATIONS.into_iter().enumerate() {
        let mut transaction = sqlx::Connection::begin(&mut *connection).await.map_err(&failed)?;
        query(ALONE).execute(&mut *transaction).await.map_err(&failed)?;
        if version(&mut transaction).await? <= index {
            transaction.execute(raw_sql(migration)).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
    }
    Ok(())
}

async fn version(connection: &mut PgConnection) -> Result<usize, StoreError> {
    let failed = failed("reading the schema's version");
    if !query_scalar::<_, bool>(EXISTS).fetch_one(&mut *connection).await.map_err(&failed)? {
        return Ok(0);
    }
    newer(query_scalar(VERSION).fetch_one(connection).await.map_err(&failed)?, MIGRATIONS.len())
}

type Question<'q, T> = QueryAs<'q, Postgres, T, PgArguments>;

fn of<'q, T>(question: Question<'q, T>, holder: &'q Holder) -> Result<Question<'q, T>, StoreError> {
    Ok(question
        .bind(holder.scope.consumer.as_str())
        .bind(holder.scope.key.as_str())
        .bind(holder.scope.step.as_str())
        .bind(holder.owner.as_str())
        .bind(kept(Some(holder.token))?))
}

fn held((held,): (bool,)) -> Hold<()> {
    if held { Hold::Held(()) } else { Hold::Lost }
}

/// What a driver's error means.
pub(super) fn failed(what: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| {
        let kind = match &error {
            sqlx::Error::Database(database) => database
                .try_downcast_ref::<PgDatabaseError>()
                .map_or(StoreErrorKind::Refused, |e| kind(e.code())),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound => {
                StoreErrorKind::Corrupt
            }
            _ => StoreErrorKind::Unavailable,
        };
        StoreError::caused(kind, what, error)
    }
}
