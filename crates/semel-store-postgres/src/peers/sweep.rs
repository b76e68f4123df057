//! A look at all queues at once, for what nobody announced.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use semel_core::name::QueueName;
use semel_store::StoreError;
use semel_store::shared::Sweep;
use tokio_postgres::types::Type;

use crate::clock::database_now;
use crate::fault::Fault;
use crate::row::Cells;
use crate::session::Sql;
use crate::store::PostgresStore;

/// The queues with a job that is due and free to go, rank by rank: the index has the jobs of each rank by their time, so
/// one look at the first of each tells. (LIMIT and not EXISTS: for that, a planner who does not know the table yet reads all
/// that is ready first.) A change of a queue's settings raises its version, a new queue has the highest id,
/// and one that is gone is missing in the count.
static SWEEP: Sql = Sql {
    text: concat!(
        "WITH clock AS MATERIALIZED (SELECT coalesce($1, ",
        database_now!(),
        ") AS now),
         kept AS MATERIALIZED (SELECT id, name, version, paused FROM semel.queue WHERE NOT deleted)
         SELECT clock.now,
                (SELECT count(*) FROM kept),
                (SELECT coalesce(sum(version), 0)::bigint FROM kept),
                (SELECT max(id) FROM kept),
                ARRAY (
                    SELECT q.name
                      FROM kept q
                     WHERE NOT q.paused
                       AND EXISTS (
                           WITH RECURSIVE ranks (rank) AS (
                               SELECT (SELECT l.rank
                                         FROM semel.live l
                                        WHERE l.queue = q.id AND l.token IS NULL AND l.open
                                        ORDER BY l.rank
                                        LIMIT 1)
                                UNION ALL
                               SELECT (SELECT l.rank
                                         FROM semel.live l
                                        WHERE l.queue = q.id AND l.token IS NULL AND l.open AND l.rank > r.rank
                                        ORDER BY l.rank
                                        LIMIT 1)
                                 FROM ranks r
                                WHERE r.rank IS NOT NULL
                           )
                           SELECT
                             FROM ranks r
                            CROSS JOIN LATERAL (SELECT
                                                  FROM semel.live l
                                                 WHERE l.queue = q.id AND l.rank = r.rank AND l.token IS NULL
                                                   AND l.open AND l.due <= clock.now
                                                 LIMIT 1) first
                       )
                     ORDER BY q.name
                )
           FROM clock"
    ),
    types: &[Type::INT8],
};

impl PostgresStore {
    pub(super) async fn sweep_queues(&self) -> Result<Sweep, StoreError> {
        let swept = async {
            let session = self.pool.session().await?;
            let row = session.query_one(&SWEEP, &[&self.clock.instead()]).await?;
            let mut cells = Cells::of(&row);
            self.clock.decides(cells.take()?);
            let mut settings = DefaultHasher::new();
            let (count, versions, highest): (i64, i64, Option<i32>) =
                (cells.take()?, cells.take()?, cells.take()?);
            (count, versions, highest).hash(&mut settings);
            let names: Vec<&str> = cells.take()?;
            Ok(Sweep { ready: names.into_iter().filter_map(known).collect(), settings: settings.finish() })
        };
        swept.await.map_err(|fault: Fault| fault.nothing_done())
    }
}

/// A name that is none cannot be anybody's queue.
fn known(name: &str) -> Option<QueueName> {
    QueueName::try_from(name).ok()
}

#[cfg(test)]
mod tests {
    use semel_core::payload::Payload;
    use semel_core::publish::Draft;
    use semel_core::queue::QueueConfig;
    use semel_store::{Command, Store};

    use super::*;
    use crate::options::Options;
    use crate::scratch;

    fn explained(sql: &Sql) -> &'static Sql {
        let text = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {}", sql.text);
        Box::leak(Box::new(Sql { text: text.leak(), types: sql.types }))
    }

    #[test]
    fn a_sweep_reads_one_job_of_each_rank_however_many_are_ready() {
        let (database, runtime) = (scratch::database(), scratch::runtime());
        runtime.block_on(async {
            let store = PostgresStore::open(database.url(), Options::default()).await.unwrap();
            let name = QueueName::try_from("orders").unwrap();
            let draft = Draft::new(name.clone(), Payload::from_json("1").unwrap());
            let put = Command::PutQueue { name: name.clone(), config: Box::new(QueueConfig::default()) };
            store.apply(vec![put]).await.unwrap()[0].clone().unwrap();
            for _ in 0..20 {
                store.apply(vec![Command::Publish(draft.clone().check().unwrap()); 100]).await.unwrap();
            }
            assert_eq!(store.sweep_queues().await.unwrap().ready, [name]);
            let session = store.pool.session().await.unwrap();
            let plan = session.query(explained(&SWEEP), &[&None::<i64>]).await.unwrap();
            let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            let scans: Vec<_> = lines.iter().filter(|line| line.contains(" on live")).collect();
            assert!(!scans.is_empty() && scans.iter().all(|line| !reads_many(line)), "{lines:#?}");
            drop(session);
            store.abandon();
        });
    }

    /// Whether a line of a plan says that a scan gave more than one row.
    fn reads_many(line: &str) -> bool {
        let rows = line.split("rows=").nth(1).and_then(|rest| rest.split([' ', ')', '.']).next());
        rows.is_some_and(|rows| rows.parse::<u64>().expect("a count of rows") > 1)
    }
}
