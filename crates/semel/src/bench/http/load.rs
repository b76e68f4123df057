//! Load: publishers on many connections, each with one request under way.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::client::Conn;
use super::server::Server;
use crate::failure::Failure;

/// Connections that publish at once.
pub(super) const CONNECTIONS: usize = 64;
/// Bytes of a payload.
pub(in crate::bench) const PAYLOAD_BYTES: usize = 512;
/// Jobs in one batch publish.
pub(super) const BATCH: u64 = 100;
/// Connections that publish batches at once, and that lease and settle them.
pub(super) const BATCHERS: usize = 16;
/// Jobs in one lease.
pub(super) const LEASE: u64 = 50;

/// Longest request told apart, in microseconds.
const LONGEST: u64 = 60_000_000;

/// What a load added up to.
#[derive(Debug)]
pub(in crate::bench) struct Load {
    pub(super) jobs: u64,
    pub(super) took: Duration,
    pub(super) latency: Histogram<u64>,
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
    pub(in crate::bench) fn per_second(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64()
    }

    /// A quantile of the answer times, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is below 2^52")]
    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// The body of one publish: a payload of [`PAYLOAD_BYTES`] and a key that no other publish has.
pub(super) fn publish_body(number: u64) -> String {
    let filler = "x".repeat(PAYLOAD_BYTES - 11);
    format!(r#"{{"payload":{{"text":"{filler}"}},"idempotencyKey":"bench-{number:022}"}}"#)
}

fn batch_body(first: u64) -> String {
    let jobs: Vec<_> = (first..first + BATCH).map(publish_body).collect();
    format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
}

/// Numbers that no other publish of this run has.
#[derive(Debug, Clone, Default)]
pub(in crate::bench) struct Numbers(Arc<AtomicU64>);

impl Numbers {
    pub(super) fn take(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::Relaxed)
    }
}

/// Publishes one job per request, from every connection, until `jobs` are answered.
pub(super) fn singles(
    runtime: &Runtime,
    server: &Server,
    queue: &str,
    jobs: u64,
    numbers: &Numbers,
) -> Result<Load, Failure> {
    singles_over(runtime, &[server], queue, jobs, numbers)
}

/// The same, with the connections spread over several servers.
pub(super) fn singles_over(
    runtime: &Runtime,
    servers: &[&Server],
    queue: &str,
    jobs: u64,
    numbers: &Numbers,
) -> Result<Load, Failure> {
    let path: Arc<str> = format!("/v1/queues/{queue}/jobs").into();
    drive(
        runtime,
        servers,
        CONNECTIONS,
        jobs,
        1,
        move |mut conn, number| {
            let path = path.clone();
            async move { conn.post(&path, publish_body(number).as_bytes()).await.map(|_| conn) }
        },
        numbers,
    )
}

/// Publishes batches, from `connections`, until `jobs` are answered.
pub(in crate::bench) fn batches(
    runtime: &Runtime,
    server: &Server,
    queue: &str,
    connections: usize,
    jobs: u64,
    numbers: &Numbers,
) -> Result<Load, Failure> {
    let path: Arc<str> = format!("/v1/queues/{queue}/jobs/batch").into();
    drive(
        runtime,
        &[server],
        connections,
        jobs,
        BATCH,
        move |mut conn, number| {
            let path = path.clone();
            async move {
                let answer = conn.post(&path, batch_body(number).as_bytes()).await?;
                if answer.contains("\"code\"") {
                    return Err(Failure::Broken(format!("an item of a batch was refused: {answer:.300}")));
                }
                Ok(conn)
            }
        },
        numbers,
    )
}

/// Sends requests of `size` jobs each from every connection until `jobs` are answered, and times each.
fn drive<F, R>(
    runtime: &Runtime,
    servers: &[&Server],
    connections: usize,
    jobs: u64,
    size: u64,
    request: F,
    numbers: &Numbers,
) -> Result<Load, Failure>
where
    F: Fn(Conn, u64) -> R + Clone + Send + 'static,
    R: Future<Output = Result<Conn, Failure>> + Send,
{
    runtime.block_on(async {
        let mut open = Vec::new();
        for server in servers.iter().cycle().take(connections) {
            open.push(Conn::open(server.address, &server.secret).await?);
        }
        let left = Arc::new(AtomicU64::new(jobs / size));
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for mut conn in open {
            let (left, request, numbers) = (left.clone(), request.clone(), numbers.clone());
            tasks.spawn(async move {
                let mut latency = histogram();
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    let sent = Instant::now();
                    conn = request(conn, numbers.take(size)).await?;
                    record(&mut latency, sent.elapsed());
                }
                Ok::<_, Failure>(latency)
            });
        }
        let mut latency = histogram();
        while let Some(ended) = tasks.join_next().await {
            let one = ended.map_err(|e| Failure::Broken(format!("a publisher broke: {e}")))??;
            latency.add(one).map_err(|e| Failure::Broken(e.to_string()))?;
        }
        Ok(Load { jobs: jobs / size * size, took: began.elapsed(), latency })
    })
}

pub(in crate::bench) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST, 3).expect("three digits up to a minute is a valid histogram")
}

pub(in crate::bench) fn record(latency: &mut Histogram<u64>, took: Duration) {
    latency.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_size_it_is_said_to_have() {
        let body: serde_json::Value = serde_json::from_str(&publish_body(7)).unwrap();
        assert_eq!(body["payload"].to_string().len(), PAYLOAD_BYTES);
        let batch: serde_json::Value = serde_json::from_str(&batch_body(7)).unwrap();
        assert_eq!(batch["jobs"].as_array().unwrap().len() as u64, BATCH);
    }
}
