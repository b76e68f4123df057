//! The replay of a completed key: from memory, against a round trip to PostgreSQL.

use std::time::{Duration, Instant};

use semel_ledger::{Call, DEFAULT_CACHE, Verdict};

use super::effect::{self, PgLedger, Worker};
use super::failed;
use crate::failure::Failure;

/// Keys that are replayed in turn, if there are as many round trips.
const KEYS: u64 = 1000;

/// How often the cache is asked for each round trip.
const TIMES: u64 = 100;

/// How often the kinds take turns.
const SLICES: u64 = 4;

/// What was measured: microseconds for one.
#[derive(Debug)]
pub(super) struct Replays {
    /// A replay from memory.
    pub(super) cached: f64,
    /// The emptiest question there is, prepared, to PostgreSQL and back.
    pub(super) trip: f64,
    /// A replay that asks the database.
    pub(super) asked: f64,
}

/// Replays one at a time, in slices that take turns with round trips.
pub(super) async fn measure(url: &str, trips: u64) -> Result<Replays, Failure> {
    let remembering = effect::ledger(url, "replays", DEFAULT_CACHE).await?;
    let asking = effect::ledger(url, "replays", 0).await?;
    let mut worker = Worker::open(url).await?;
    let calls = completed(&remembering, &mut worker, trips.min(KEYS)).await?;
    let nothing = worker.nothing().await?;
    let (mut cached, mut trip, mut asked) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let size = trips / SLICES;
    for _ in 0..SLICES {
        cached += replay(&remembering, &mut worker, &calls, size * TIMES).await?;
        let began = Instant::now();
        for _ in 0..size {
            worker.trip(&nothing).await?;
        }
        trip += began.elapsed();
        asked += replay(&asking, &mut worker, &calls, size).await?;
    }
    let all = size * SLICES;
    Ok(Replays { cached: micros(cached, all * TIMES), trip: micros(trip, all), asked: micros(asked, all) })
}

async fn completed(ledger: &PgLedger, worker: &mut Worker, keys: u64) -> Result<Vec<Call>, Failure> {
    let mut calls = Vec::new();
    for number in 0..keys {
        let call = Call::new(format!("charge-{number:016}")).map_err(failed("name an effect"))?;
        effect::new(worker.once(ledger, &call).await?)?;
        calls.push(call);
    }
    Ok(calls)
}

async fn replay(
    ledger: &PgLedger,
    worker: &mut Worker,
    calls: &[Call],
    times: u64,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    for (_, call) in (0..times).zip(calls.iter().cycle()) {
        let verdict = worker.once(ledger, call).await?;
        if !matches!(verdict, Verdict::Replayed(_)) {
            return Err(Failure::Broken(format!("a completed effect was answered {verdict:?}")));
        }
    }
    Ok(began.elapsed())
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn micros(took: Duration, count: u64) -> f64 {
    took.as_secs_f64() * 1e6 / count as f64
}
