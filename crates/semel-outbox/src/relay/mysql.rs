//! The outbox in MySQL or MariaDB.

use async_trait::async_trait;
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySql, MySqlConnection, QueryBuilder,
    Transaction,
};

use super::mark::{FIRST, Mark};
use super::row::{Columns, Refused, Row};
use super::source::{CONNECT, CONNECTIONS, Claim, News, Source, in_front};
use super::{Dead, Depth, Error};
use crate::schema;

/// Each statement sees what was committed before it, and locks the rows it returns and no gaps between them, in which the
/// application wants to insert.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A relay that hangs while it holds rows loses them after this time, well past what a round takes.
const PATIENCE: &str = "SET SESSION wait_timeout = 60";

const DEAD: &str = "
    SELECT o.id, o.queue, o.idempotency_key, o.job_group, DATE_FORMAT(o.dead_at, '%Y-%m-%dT%H:%i:%s.%fZ'), o.dead_code, o.dead_reason,
           (SELECT count(*) FROM semel_outbox AS b
            WHERE b.queue = o.queue AND b.job_group = o.job_group AND b.id > o.id)
    FROM semel_outbox AS o
    WHERE o.dead_at IS NOT NULL
    ORDER BY o.id
    LIMIT ?";

pub(super) struct Mysql {
    pool: MySqlPool,
    mark: Mark,
}

impl Mysql {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let wrong = Error::database("connect to the database");
        let options: MySqlConnectOptions = url.parse().map_err(&wrong)?;
        // A pool tries again for as long as it may wait. Whoever starts a relay wants to know at once that it cannot work.
        options.connect().await.map_err(&wrong)?.close().await.map_err(&wrong)?;
        let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT);
        let pool = pool.after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(ISOLATION).await?;
                connection.execute(PATIENCE).await.map(drop)
            })
        });
        Ok(Self { pool: pool.connect_lazy_with(options), mark: Mark::default() })
    }

    /// Changes dead rows, all or these.
    async fn change_dead(
        &self,
        change: &'static str,
        ids: Option<&[i64]>,
        what: &'static str,
    ) -> Result<u64, Error> {
        if ids.is_some_and(<[i64]>::is_empty) {
            return Ok(0);
        }
        let mut query = QueryBuilder::<MySql>::new(change);
        query.push(" WHERE dead_at IS NOT NULL");
        if let Some(ids) = ids {
            query.push(" AND id IN ");
            push_ids(&mut query, ids);
        }
        let changed = query.build().execute(&self.pool).await;
        Ok(changed.map_err(Error::database(what))?.rows_affected())
    }
}

/// A list of numbers in parentheses.
fn push_ids(query: &mut QueryBuilder<MySql>, ids: &[i64]) {
    query.push("(");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(*id);
    }
    query.push(")");
}

#[async_trait]
impl Source for Mysql {
    async fn claim(&self, limit: u32, held: &[String]) -> Result<Box<dyn Claim>, Error> {
        let wrong = Error::database("claim rows of semel_outbox");
        let mut transaction = self.pool.begin().await.map_err(&wrong)?;
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

    /// Nobody announces anything here.
    fn news(&self) -> News {
        News(None)
    }

    fn takes_turns(&self) -> bool {
        false
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let counted = sqlx::query_as(Depth::COUNT).fetch_one(&self.pool).await;
        counted.map(Depth::of).map_err(Error::database("count rows of semel_outbox"))
    }

    async fn dead(&self, limit: u32) -> Result<Vec<Dead>, Error> {
        let found = sqlx::query_as(DEAD).bind(limit).fetch_all(&self.pool).await;
        let found = found.map_err(Error::database("read dead rows of semel_outbox"))?;
        Ok(found.into_iter().map(Dead::of).collect())
    }

    async fn retry(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        let update = "UPDATE semel_outbox SET dead_at = NULL, dead_code = NULL, dead_reason = NULL";
        self.change_dead(update, ids, "have dead rows tried again").await
    }

    async fn discard(&self, ids: Option<&[i64]>) -> Result<u64, Error> {
        self.change_dead("DELETE FROM semel_outbox", ids, "discard dead rows").await
    }

    async fn ensure_schema(&self) -> Result<(), Error> {
        let made = sqlx::raw_sql(schema::MYSQL).execute(&self.pool).await;
        made.map(drop).map_err(Error::database("make the table semel_outbox"))
    }
}

/// Claims rows behind this one, by the primary key, which is what the deletes lock first, too: relays that lock in one order do
/// not lock each other out.
async fn claim(
    connection: &mut MySqlConnection,
    limit: u32,
    held: &[String],
    after: i64,
) -> Result<Vec<Columns>, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "SELECT o.id, o.queue, o.idempotency_key, o.job_group, o.payload, o.options
         FROM semel_outbox AS o FORCE INDEX (PRIMARY)
         WHERE o.dead_at IS NULL
           AND (o.job_group IS NULL OR NOT EXISTS (
                 SELECT 1
                 FROM semel_outbox AS b
                 WHERE b.dead_at IS NOT NULL
                   AND b.queue = o.queue
                   AND b.job_group = o.job_group
                   AND b.id < o.id))
           AND o.id > ",
    );
    query.push_bind(after);
    if !held.is_empty() {
        query.push(" AND o.queue NOT IN (");
        let mut list = query.separated(", ");
        for queue in held {
            list.push_bind(queue.clone());
        }
        query.push(")");
    }
    query.push(" ORDER BY o.id LIMIT ").push_bind(limit).push(" FOR UPDATE SKIP LOCKED");
    query.build_query_as().fetch_all(connection).await
}

/// The first row of each of our groups that is not ours, if it is in front of one that is: another relay has it, or it died
/// just now.
async fn others(
    connection: &mut MySqlConnection,
    rows: &[Row],
) -> Result<Vec<(String, String, i64)>, sqlx::Error> {
    let grouped = Row::grouped(rows);
    let Some((last, _)) = grouped.last() else { return Ok(Vec::new()) };
    let mut query = QueryBuilder::new("SELECT queue, job_group, MIN(id) FROM semel_outbox WHERE id < ");
    query.push_bind(last.id).push(" AND (queue, job_group) IN (");
    let mut list = query.separated(", ");
    for (row, group) in &grouped {
        list.push("(").push_bind_unseparated(row.queue.clone());
        list.push_unseparated(", ").push_bind_unseparated((*group).clone()).push_unseparated(")");
    }
    query.push(") AND id NOT IN ");
    push_ids(&mut query, &rows.iter().map(|row| row.id).collect::<Vec<_>>());
    query.push(" GROUP BY queue, job_group");
    query.build_query_as().fetch_all(connection).await
}

/// One statement per row, all sent at once. Given a list, the optimiser would rather read the whole of a small table, and a
/// delete waits for every row that another relay has: two relays that wait for each other are a deadlock.
fn deletes(ids: &[i64]) -> String {
    ids.iter().map(|id| format!("DELETE FROM semel_outbox WHERE id = {id};")).collect()
}

struct Claimed {
    transaction: Transaction<'static, MySql>,
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
        if !carried.is_empty() {
            let delete = sqlx::raw_sql(AssertSqlSafe(deletes(&carried)));
            delete.execute(&mut *self.transaction).await.map_err(&wrong)?;
        }
        for (id, Refused { code, reason }) in refused {
            let refuse = "UPDATE semel_outbox
                          SET dead_at = UTC_TIMESTAMP(3), dead_code = ?, dead_reason = ?
                          WHERE id = ?";
            let refuse = sqlx::query(refuse).bind(code).bind(reason).bind(id);
            refuse.execute(&mut *self.transaction).await.map_err(&wrong)?;
        }
        self.transaction.commit().await.map_err(&wrong)
    }
}
