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
/// one look at the first of each tells. A change of a queue's settings raises its version, a new queue has the highest id,
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
                            WHERE EXISTS (SELECT
                                            FROM semel.live l
                                           WHERE l.queue = q.id AND l.rank = r.rank AND l.token IS NULL AND l.open
                                             AND l.due <= clock.now)
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
