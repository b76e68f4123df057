//! Load: publishers on many connections, each with one request under way.

use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Digits of the number in a key.
const DIGITS: usize = 22;

/// The body of one publish: a payload of [`PAYLOAD_BYTES`] and a key that no other publish has.
fn publish_body(number: u64) -> String {
    let filler = "x".repeat(PAYLOAD_BYTES - 11);
    format!(r#"{{"payload":{{"text":"{filler}"}},"idempotencyKey":"bench-{number:0DIGITS$}"}}"#)
}

fn batch_body(first: u64) -> String {
    let jobs: Vec<_> = (first..first + BATCH).map(publish_body).collect();
    format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
}

/// Numbers that no other publish of this run has.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Numbers {
    next: Arc<AtomicU64>,
    /// What single ones are multiplied with.
    factor: u64,
}

/// An odd number, so that the products of all numbers below 2^64 with it are as different as they are, and 2^64 by the golden
/// ratio, so that the next product is far from the last.
const SCATTER: u64 = 11_400_714_819_323_198_485;

impl Default for Numbers {
    /// One after the other, from the first.
    fn default() -> Self {
        Self { next: Arc::default(), factor: 1 }
    }
}

impl Numbers {
    /// Numbers that are in no order, as the keys of most senders are: the `first` one, the one after it and so on, multiplied.
    pub(super) fn scattered(first: u64) -> Self {
        Self { next: Arc::new(AtomicU64::new(first)), factor: SCATTER }
    }

    pub(super) fn take(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::Relaxed).wrapping_mul(self.factor)
    }
}

/// Whoever publishes on one connection.
trait Publisher: Send + 'static {
    /// How many jobs one request has.
    const SIZE: u64;

    /// Publishes the jobs with the numbers from this one on.
    fn publish(&mut self, first: u64) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Publishes one job per request. All requests are alike but for the number in them, and are not made anew each time: the
/// client shares its cores with the server.
struct Singly {
    conn: Conn,
    request: Vec<u8>,
    number: Range<usize>,
}

impl Singly {
    fn new(conn: Conn, queue: &str) -> Self {
        let body = publish_body(0);
        let mut request = conn.head("POST", &format!("/v1/queues/{queue}/jobs"), body.len()).into_bytes();
        request.extend_from_slice(body.as_bytes());
        // The number is what the body ends with, but for a quote and a brace.
        let end = request.len() - 2;
        Self { conn, request, number: end - DIGITS..end }
    }
}

impl Publisher for Singly {
    const SIZE: u64 = 1;

    async fn publish(&mut self, mut number: u64) -> Result<(), Failure> {
        for digit in self.request[self.number.clone()].iter_mut().rev() {
            *digit = b'0' + u8::try_from(number % 10).expect("a digit is below ten");
            number /= 10;
        }
        self.conn.exchange(&self.request).await.map(drop)
    }
}

/// Publishes jobs in batches.
struct InBatches {
    conn: Conn,
    path: String,
}

impl Publisher for InBatches {
    const SIZE: u64 = BATCH;

    async fn publish(&mut self, first: u64) -> Result<(), Failure> {
        let answer = self.conn.post(&self.path, batch_body(first).as_bytes()).await?;
        if answer.contains("\"code\"") {
            return Err(Failure::Broken(format!("an item of a batch was refused: {answer:.300}")));
        }
        Ok(())
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
    singles_over(runtime, &[server], CONNECTIONS, queue, jobs, numbers)
}

/// The same, with `connections` in all, spread over several servers.
pub(super) fn singles_over(
    runtime: &Runtime,
    servers: &[&Server],
    connections: usize,
    queue: &str,
    jobs: u64,
    numbers: &Numbers,
) -> Result<Load, Failure> {
    drive(runtime, servers, connections, jobs, |conn| Singly::new(conn, queue), numbers)
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
    let path = format!("/v1/queues/{queue}/jobs/batch");
    drive(runtime, &[server], connections, jobs, |conn| InBatches { conn, path: path.clone() }, numbers)
}

/// Sends requests from every connection until `jobs` are answered, and times each.
fn drive<P: Publisher>(
    runtime: &Runtime,
    servers: &[&Server],
    connections: usize,
    jobs: u64,
    publisher: impl Fn(Conn) -> P,
    numbers: &Numbers,
) -> Result<Load, Failure> {
    runtime.block_on(async {
        let mut publishers = Vec::new();
        for server in servers.iter().cycle().take(connections) {
            publishers.push(publisher(Conn::open(server.address, &server.secret).await?));
        }
        let left = Arc::new(AtomicU64::new(jobs / P::SIZE));
        // One for all: many would be larger than the caches that the server wants to use.
        let latency = Arc::new(Mutex::new(histogram()));
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for mut publisher in publishers {
            let (left, latency, numbers) = (left.clone(), latency.clone(), numbers.clone());
            tasks.spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    let sent = Instant::now();
                    publisher.publish(numbers.take(P::SIZE)).await?;
                    record(&mut latency.lock().unwrap_or_else(PoisonError::into_inner), sent.elapsed());
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|e| Failure::Broken(format!("a publisher broke: {e}")))??;
        }
        let took = began.elapsed();
        let latency = latency.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Load { jobs: jobs / P::SIZE * P::SIZE, took, latency })
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
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_request_that_is_used_again_is_the_one_that_would_be_made() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let conn = Conn::open(listener.local_addr().unwrap(), "secret").await.unwrap();
        let mut singly = Singly::new(conn, "q");
        for number in [907, 5] {
            // Nobody answers; the request is made all the same.
            let publishing = singly.publish(number);
            assert!(pin!(publishing).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(singly.request.ends_with(publish_body(number).as_bytes()));
        }
    }

    #[test]
    fn scattered_numbers_are_far_from_each_other_and_none_comes_twice() {
        let numbers = Numbers::scattered(5);
        let mut taken: Vec<u64> = (0..1000).map(|_| numbers.take(1)).collect();
        assert!(taken.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > u64::MAX / 4));
        assert_eq!(taken[1], 6_u64.wrapping_mul(SCATTER));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1000);
    }

    #[test]
    fn a_payload_has_the_size_it_is_said_to_have() {
        let body: serde_json::Value = serde_json::from_str(&publish_body(7)).unwrap();
        assert_eq!(body["payload"].to_string().len(), PAYLOAD_BYTES);
        let batch: serde_json::Value = serde_json::from_str(&batch_body(7)).unwrap();
        assert_eq!(batch["jobs"].as_array().unwrap().len() as u64, BATCH);
    }
}
