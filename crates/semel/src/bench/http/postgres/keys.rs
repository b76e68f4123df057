//! Many keys: as if that many jobs had been published and completed before, each under a key that still holds.
//!
//! Keys are scattered, as those of real senders are: each new one lands between any two of the old ones.

use semel_cluster::Cluster;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::super::load::{self, Numbers};
use super::super::server::Server;
use super::Plan;
use super::limit::{broken, connect};
use super::rounds::database;
use super::spent::Look;
use super::turns::{self, Pair, Side};
use crate::failure::Failure;
use crate::progress::Progress;

/// Rows per statement: enough to be fast, few enough to show progress.
const SLICE: i64 = 100_000;

/// Completed jobs of queue `keyed`, stripped to what their keys need, spread over the last hour. Their keys are made as
/// [`Numbers::scattered`] makes those of the publishes.
const FILL: &str = "
    WITH past AS (
        SELECT number,
               ((extract(epoch FROM now()) * 1000)::bigint - 1735689600000 - 3600000 + number * 3600000 / $3) << 22
                   | 1022 << 12 | number % 4096 AS id,
               'bench-' || lpad(((number::numeric * 11400714819323198485) % 18446744073709551616)::text, 22, '0') AS key
        FROM generate_series($1::bigint, $2::bigint) AS number
    ), queue AS (
        SELECT id FROM semel.queue WHERE name = 'keyed' AND NOT deleted
    ), jobs AS (
        INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, gated, fingerprint)
        SELECT past.id, queue.id, (past.id >> 22) + 1735689600000, (past.id >> 22) + 1735689600000, 0,
               past.key, false, decode(md5(number::text) || md5(number::text), 'hex')
        FROM past, queue
    ), ended AS (
        INSERT INTO semel.done (id, queue, state, due, finished_at, attempts, deferrals, look_at)
        SELECT past.id, queue.id, 3, (past.id >> 22) + 1735689600000, (past.id >> 22) + 1735689600000, 1, 0,
               (past.id >> 22) + 1735689600000 + 259200000
        FROM past, queue
    ), tally AS (
        INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
        SELECT queue.id, 0, $2 - $1 + 1, 0, 0 FROM queue
    )
    INSERT INTO semel.key (queue, key, ids)
    SELECT queue.id, past.key, ARRAY[past.id] FROM past, queue ORDER BY past.key";

/// Rates of a node on an empty store, and of one on a store with many keys, on the same PostgreSQL.
pub(super) fn measure(
    plan: &Plan,
    runtime: &Runtime,
    cluster: &Cluster,
    progress: &mut Progress,
) -> Result<Pair, Failure> {
    let (few, many) = (database(cluster, "few_keys")?, database(cluster, "many_keys")?);
    let (empty, full) = (Server::shared(&few)?, Server::shared(&many)?);
    // New keys are none of those that were filled in: their numbers go on where those end.
    let numbers = Numbers::scattered(plan.keys + 1);
    let singles = |server, jobs| load::singles(runtime, server, "keyed", jobs, &numbers);
    // The first publish makes the queue.
    singles(&full, plan.singles / 10)?;
    fill(runtime, &many, plan.keys, progress)?;
    // The first publish to touch a page after a checkpoint logs the whole page, once until the next checkpoint in minutes. The
    // keys end with a checkpoint: this many more touch nearly every page of theirs.
    singles(&full, (plan.keys / 50).max(plan.singles / 10))?;
    let server_of = |side| match side {
        Side::Base => &empty,
        Side::Other => &full,
    };
    let look = |side| Look::at(&[server_of(side)], cluster);
    turns::take(plan.singles, |side, jobs| singles(server_of(side), jobs), look)
}

/// Puts keys into the store's tables, past the server: at its own speed ten million would take an hour.
fn fill(runtime: &Runtime, url: &str, keys: u64, progress: &mut Progress) -> Result<(), Failure> {
    let keys = i64::try_from(keys).map_err(|_| Failure::Usage("too many keys".into()))?;
    progress.start("keys", keys.unsigned_abs());
    runtime.block_on(async {
        let client = connect(url).await?;
        for first in (1..=keys).step_by(usize::try_from(SLICE).unwrap_or(1)) {
            let last = (first + SLICE - 1).min(keys);
            client
                .execute(FILL, &[&first, &last, &keys])
                .await
                .map_err(broken("fill the store with keys"))?;
            progress.set(last.unsigned_abs());
        }
        settle(&client).await
    })
}

/// What autovacuum would have done meanwhile.
async fn settle(client: &Client) -> Result<(), Failure> {
    client.batch_execute("VACUUM ANALYZE").await.map_err(broken("vacuum"))?;
    client.batch_execute("CHECKPOINT").await.map_err(broken("make a checkpoint"))
}
