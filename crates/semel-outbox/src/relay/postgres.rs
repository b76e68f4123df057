//! The outbox in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, PgConnection, Transaction};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::mark::{FIRST, Mark};
use super::row::{Columns, Refused, Row};
use super::source::{CONNECT, CONNECTIONS, Claim, News, Source, in_front};
use super::{Dead, Depth, Error};
use crate::schema;

/// The channel of the trigger.
const CHANNEL: &str = "semel_outbox";

/// How long to leave a database alone that could not be listened to. Rows are found by looking meanwhile.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// A relay that hangs while it holds rows loses them after this time, well past what a round takes.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '60s'";

const CLAIM: &str = "
    SELECT o.id, o.queue, o.idempotency_key, o.job_group, o.payload::text, o.options::text
    FROM semel_outbox AS o
    WHERE o.id > $3
      AND o.dead_at IS NULL
      AND o.queue <> ALL ($1)
      AND (o.job_group IS NULL OR NOT EXISTS (
            SELECT
            FROM semel_outbox AS before
            WHERE before.dead_at IS NOT NULL
              AND before.queue = o.queue
              AND before.job_group = o.job_group
              AND before.id < o.id))
    ORDER BY o.id
    LIMIT $2
    FOR UPDATE OF o SKIP LOCKED";

/// Rows in front of ours that are not ours: another relay has them, or they died just now. It is a statement of its own,
/// after the claim, so that it sees everything that was committed before the claim.
const OTHERS: &str = "
    SELECT o.queue, o.job_group, min(o.id)
    FROM semel_outbox AS o
    JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS ours (queue, job_group, id)
      ON o.queue = ours.queue AND o.job_group = ours.job_group AND o.id < ours.id
    WHERE o.id <> ALL ($4)
    GROUP BY o.queue, o.job_group";

const REFUSE: &str = "
    UPDATE semel_outbox AS o
    SET dead_at = now(), dead_code = d.code, dead_reason = d.reason
    FROM unnest($1::bigint[], $2::text[], $3::text[]) AS d (id, code, reason)
    WHERE o.id = d.id";

const DEAD: &str = "
    SELECT o.id, o.queue, o.idempotency_key, o.job_group,
           to_char(o.dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), o.dead_code, o.dead_reason,
           (SELECT count(*) FROM semel_outbox AS b
            WHERE b.queue = o.queue AND b.job_group = o.job_group AND b.id > o.id)
    FROM semel_outbox AS o
    WHERE o.dead_at IS NOT NULL
    ORDER BY o.id
    LIMIT $1";

pub(super) struct Postgres {
    pool: PgPool,
    mark: Mark,
    news: watch::Receiver<()>,
    listening: JoinHandle<()>,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let wrong = Error::database("connect to the database");
        let options: PgConnectOptions = url.parse().map_err(&wrong)?;
        // A pool tries again for as long as it may wait. Whoever starts a relay wants to know at once that it cannot work.
        options.connect().await.map_err(&wrong)?.close().await.map_err(&wrong)?;
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT);
        let pool = pool.connect_lazy_with(options);
        let (heard, news) = watch::channel(());
        let listening = tokio::spawn(listen(pool.clone(), heard));
        Ok(Self { pool, mark: Mark::default(), news, listening })
    }
}

/// Hears of new rows as long as the relay is there.
async fn listen(pool: PgPool, heard: watch::Sender<()>) {
    loop {
        if let Err(error) = hear(&pool, &heard).await {
            tracing::warn!(%error, "new rows are not announced; they are looked for instead");
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn hear(pool: &PgPool, heard: &watch::Sender<()>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    loop {
        // What was announced before we listened, or while the connection was down, is looked for.
        heard.send_replace(());
        listener.try_recv().await?;
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[async_trait]
impl Source for Postgres {
    async fn claim(&self, limit: u32, held: &[String]) -> Result<Box<dyn Claim>, Error> {
        let wrong = Error::database("claim rows of semel_outbox");
        let mut transaction = self.pool.begin_with(BEGIN).await.map_err(&wrong)?;
        let mut after = self.mark.begin();
        loop {
            let claimed = claim(&mut transaction, limit, held, after).await.map_err(&wrong)?;
            self.mark.ended(claimed.get(limit as usize - 1).map(|(id, ..)| *id));
            let rows: Vec<Row> = claimed.into_iter().map(Row::of).collect();
            let others = others(&mut transaction, &rows).await.map_err(&wrong)?;
            let rows = in_front(rows, &others);
            if !rows.is_empty() || after == FIRST {
                return Ok(Box::new(Claimed { transaction, rows }));
            }
            // What there is waits for something in front of the mark, if there is anything.
            after = FIRST;
        }
    }

    fn news(&self) -> News {
        News(Some(self.news.clone()))
    }

    fn takes_turns(&self) -> bool {
        false
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let counted = sqlx::query_as(Depth::COUNT).fetch_one(&self.pool).await;
        counted.map(Depth::of).map_err(Error::database("count rows of semel_outbox"))
    }

    async fn dead(&self, limit: u32) -> Result<Vec<Dead>, Error> {
        let found = sqlx::query_as(DEAD).bind(i64::from(limit)).fetch_all(&self.pool).await;
        let found = found.map_err(Error::database("read dead rows of semel_outbox"))?;
        Ok(found.into_iter().map(Dead::of).collect())
    }

    async fn retry(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        let update = "UPDATE semel_outbox
                      SET dead_at = NULL, dead_code = NULL, dead_reason = NULL
                      WHERE dead_at IS NOT NULL AND ($1::bigint[] IS NULL OR id = ANY ($1))";
        let updated = sqlx::query(update).bind(ids).execute(&self.pool).await;
        let updated = updated.map_err(Error::database("have dead rows tried again"))?.rows_affected();
        // Nobody announces an update, and whoever asked is waiting.
        let notify = sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(&self.pool).await;
        notify.map_err(Error::database("announce rows"))?;
        Ok(updated)
    }

    async fn discard(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        let delete = "DELETE FROM semel_outbox
                      WHERE dead_at IS NOT NULL AND ($1::bigint[] IS NULL OR id = ANY ($1))";
        let deleted = sqlx::query(delete).bind(ids).execute(&self.pool).await;
        Ok(deleted.map_err(Error::database("discard dead rows"))?.rows_affected())
    }

    async fn ensure_schema(&self) -> Result<(), Error> {
        let wrong = Error::database("make the table semel_outbox");
        let mut transaction = self.pool.begin().await.map_err(&wrong)?;
        // Two who make one table at the same moment would both find that it is not there.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('semel_outbox', 0))";
        transaction.execute(lock).await.map_err(&wrong)?;
        sqlx::raw_sql(schema::POSTGRES).execute(&mut *transaction).await.map_err(&wrong)?;
        transaction.commit().await.map_err(&wrong)
    }
}

/// Claims rows behind this one.
async fn claim(
    connection: &mut PgConnection,
    limit: u32,
    held: &[String],
    after: i64,
) -> Result<Vec<Columns>, sqlx::Error> {
    sqlx::query_as(CLAIM).bind(held).bind(i64::from(limit)).bind(after).fetch_all(connection).await
}

/// The first row of each of our groups that is not ours, if it is in front of one that is.
async fn others(
    connection: &mut PgConnection,
    rows: &[Row],
) -> Result<Vec<(String, String, i64)>, sqlx::Error> {
    let grouped = Row::grouped(rows);
    if grouped.is_empty() {
        return Ok(Vec::new());
    }
    let column = |of: fn(&(&Row, &String)) -> String| grouped.iter().map(of).collect::<Vec<_>>();
    sqlx::query_as(OTHERS)
        .bind(column(|(row, _)| row.queue.clone()))
        .bind(column(|(_, group)| (*group).clone()))
        .bind(grouped.iter().map(|(row, _)| row.id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.id).collect::<Vec<_>>())
        .fetch_all(connection)
        .await
}

struct Claimed {
    transaction: Transaction<'static, sqlx::Postgres>,
    rows: Vec<Row>,
}

#[async_trait]
impl Claim for Claimed {
    fn rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    async fn settle(
        mut self: Box<Self>,
        carried: Vec<i64>,
        refused: Vec<(i64, Refused)>,
    ) -> Result<(), Error> {
        let wrong = Error::database("settle rows of semel_outbox");
        let transaction = &mut *self.transaction;
        // By their ids and not by their places, which would be quicker: in a table that somebody divided, every partition has a row
        // at such a place.
        let delete = sqlx::query("DELETE FROM semel_outbox WHERE id = ANY ($1)").bind(carried);
        delete.execute(&mut *transaction).await.map_err(&wrong)?;
        if !refused.is_empty() {
            let ids: Vec<_> = refused.iter().map(|(id, _)| *id).collect();
            let codes: Vec<_> = refused.iter().map(|(_, refused)| refused.code.clone()).collect();
            let reasons: Vec<_> = refused.into_iter().map(|(_, refused)| refused.reason).collect();
            let refuse = sqlx::query(REFUSE).bind(ids).bind(codes).bind(reasons);
            refuse.execute(transaction).await.map_err(&wrong)?;
        }
        self.transaction.commit().await.map_err(&wrong)
    }
}
