//! What a relay carries, against what the server takes in batches.

use std::time::Instant;

use semel_client::http::Client;
use semel_outbox::relay::{Outbox, Relay};
use tokio::runtime::Runtime;

use super::failed;
use crate::bench::http::load::{self, Numbers, PAYLOAD_BYTES};
use crate::bench::http::postgres::limit::{broken, connect};
use crate::bench::http::server::Server;
use crate::failure::Failure;

/// Connections that publish batches: as many as `semel bench http` has.
const CONNECTIONS: usize = 16;

const FILL: &str = "
    INSERT INTO semel_outbox (queue, idempotency_key, payload)
    SELECT 'relayed', 'bench-' || lpad(number::text, 22, '0'), $2::text::json
    FROM generate_series(1, $1::bigint) AS number";

/// What was measured, per second.
#[derive(Debug)]
pub(super) struct Relayed {
    /// Jobs published in batches of 100.
    pub(super) batches: f64,
    /// Rows carried.
    pub(super) rows: f64,
}

/// Carries rows between two halves of the batches that they are compared with.
pub(super) fn measure(runtime: &Runtime, server: &Server, url: &str, rows: u64) -> Result<Relayed, Failure> {
    let numbers = Numbers::default();
    let batches = |jobs| load::batches(runtime, server, "batch", CONNECTIONS, jobs, &numbers);
    let relay = runtime.block_on(filled(server, url, rows))?;
    // The server is warm before anything counts.
    batches(rows / 10)?;
    let before = batches(rows / 2)?.per_second();
    let carried = runtime.block_on(carry(&relay, rows))?;
    let after = batches(rows / 2)?.per_second();
    Ok(Relayed { batches: f64::midpoint(before, after), rows: carried })
}

/// A relay of an outbox with so many rows.
async fn filled(server: &Server, url: &str, rows: u64) -> Result<Relay, Failure> {
    let client = Client::builder(format!("http://{}", server.address)).api_key(&server.secret);
    let client = client.build().map_err(failed("make a client"))?;
    let outbox = Outbox::open(url).await?;
    outbox.ensure_schema().await?;
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(PAYLOAD_BYTES - 11));
    let count = i64::try_from(rows).map_err(failed("count rows"))?;
    let database = connect(url).await?;
    // Before the rows and not after them: a relay carries what was inserted a moment ago, not what a checkpoint has put away.
    database.batch_execute("CHECKPOINT").await.map_err(broken("make a checkpoint"))?;
    database.execute(FILL, &[&count, &payload]).await.map_err(broken("fill the outbox"))?;
    database.batch_execute("VACUUM ANALYZE semel_outbox").await.map_err(broken("vacuum"))?;
    Ok(Relay::new(&outbox, &client))
}

/// Carries them all in three lanes, as a relay has; rows per second.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
async fn carry(relay: &Relay, rows: u64) -> Result<f64, Failure> {
    let began = Instant::now();
    let (first, second, third) = tokio::try_join!(relay.drain(), relay.drain(), relay.drain())?;
    let took = began.elapsed().as_secs_f64();
    let carried = first.carried + second.carried + third.carried;
    if carried != rows {
        return Err(Failure::Broken(format!("{carried} of {rows} rows were carried")));
    }
    Ok(rows as f64 / took)
}
