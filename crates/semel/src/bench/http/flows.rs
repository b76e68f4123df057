//! Jobs from publish to completion: pushed to a worker, or pulled in batches.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::client::Conn;
use super::load::{self, BATCHERS, LEASE, Numbers};
use super::server::Server;
use super::worker::Worker;
use crate::failure::Failure;

/// How long a flow may stand still before it counts as broken.
const STALLED: Duration = Duration::from_secs(60);

/// Makes a queue that pushes to `url`.
pub(super) async fn push_queue(conn: &mut Conn, name: &str, url: &str) -> Result<(), Failure> {
    let config = json!({ "delivery": { "type": "push", "url": url } });
    conn.put(&format!("/v1/queues/{name}"), config.to_string().as_bytes()).await.map(drop)
}

/// Waits until the server counts `jobs` completed jobs in the queues whose names start with `prefix`.
pub(super) fn until_completed(
    runtime: &Runtime,
    server: &Server,
    prefix: &str,
    jobs: u64,
) -> Result<(), Failure> {
    runtime.block_on(async {
        let mut conn = Conn::open(server.address, &server.secret).await?;
        let (mut seen, mut moved) = (0, Instant::now());
        loop {
            let stats: Value = read(&conn.get("/v1/stats").await?)?;
            let queues = stats["queues"].as_object().into_iter().flatten();
            let ours = queues.filter(|(name, _)| name.starts_with(prefix));
            let completed: u64 = ours.filter_map(|(_, counts)| counts["completed"].as_u64()).sum();
            if completed >= jobs {
                return Ok(());
            }
            if completed > seen {
                (seen, moved) = (completed, Instant::now());
            } else if moved.elapsed() > STALLED {
                return Err(Failure::Broken(format!(
                    "{completed} of {jobs} jobs were completed, then nothing"
                )));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|e| Failure::Broken(format!("the server sent {text:.200}: {e}")))
}

/// Publishes single jobs to a queue that pushes to a worker that does nothing; completed jobs per second, first publish
/// to last completion.
pub(super) fn push(
    runtime: &Runtime,
    server: &Server,
    queue: &str,
    jobs: u64,
    numbers: &Numbers,
) -> Result<f64, Failure> {
    let worker = Worker::start(Arc::new(|_: &[u8]| {}))?;
    let url = format!("http://{}/", worker.address);
    runtime.block_on(async {
        let mut conn = Conn::open(server.address, &server.secret).await?;
        push_queue(&mut conn, queue, &url).await
    })?;
    let began = Instant::now();
    load::singles(runtime, server, queue, jobs, numbers)?;
    until_handled(&worker, jobs)?;
    until_completed(runtime, server, queue, jobs)?;
    Ok(per_second(jobs, began.elapsed()))
}

/// Waits until the worker has handled `jobs` deliveries. Asking the worker costs the server nothing.
pub(super) fn until_handled(worker: &Worker, jobs: u64) -> Result<(), Failure> {
    let (mut seen, mut moved) = (0, Instant::now());
    while worker.handled() < jobs {
        if worker.handled() > seen {
            (seen, moved) = (worker.handled(), Instant::now());
        } else if moved.elapsed() > STALLED {
            return Err(Failure::Broken(format!("the worker handled {seen} of {jobs} jobs, then nothing")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
pub(super) fn per_second(jobs: u64, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}

/// Publishes batches while workers lease and settle in batches; completed jobs per second.
pub(super) fn pull(
    runtime: &Runtime,
    server: &Server,
    queue: &str,
    jobs: u64,
    numbers: &Numbers,
) -> Result<f64, Failure> {
    let settled = Arc::new(AtomicU64::new(0));
    let last = Arc::new(Mutex::new(Instant::now()));
    let began = Instant::now();
    let workers: JoinSet<Result<(), Failure>> = runtime.block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..BATCHERS {
            let conn = Conn::open(server.address, &server.secret).await?;
            workers.spawn(work(conn, queue.to_owned(), jobs, settled.clone(), last.clone()));
        }
        Ok::<_, Failure>(workers)
    })?;
    load::batches(runtime, server, queue, BATCHERS, jobs, numbers)?;
    runtime.block_on(async {
        let mut workers = workers;
        while let Some(ended) = workers.join_next().await {
            ended.map_err(|e| Failure::Broken(format!("a worker broke: {e}")))??;
        }
        Ok::<_, Failure>(())
    })?;
    // The other workers were still waiting for more when the last job was settled.
    let last = *last.lock().map_err(|_| Failure::Broken("a worker broke".into()))?;
    Ok(per_second(settled.load(Ordering::Relaxed), last.duration_since(began)))
}

/// Leases and settles until all jobs are settled.
async fn work(
    mut conn: Conn,
    queue: String,
    jobs: u64,
    settled: Arc<AtomicU64>,
    last: Arc<Mutex<Instant>>,
) -> Result<(), Failure> {
    let lease = format!("/v1/queues/{queue}/lease");
    let ask = json!({ "max": LEASE, "wait": 1 }).to_string();
    while settled.load(Ordering::Relaxed) < jobs {
        let leased = conn.post(&lease, ask.as_bytes()).await?;
        let items = settles(&leased)?;
        if items.is_empty() {
            continue;
        }
        let count = items.len() as u64;
        let answer = conn.post("/v1/settle", json!({ "items": items }).to_string().as_bytes()).await?;
        if answer.contains("\"code\"") {
            return Err(Failure::Broken(format!("a settle was refused: {answer:.300}")));
        }
        settled.fetch_add(count, Ordering::Relaxed);
        if let Ok(mut last) = last.lock() {
            *last = Instant::now();
        }
    }
    Ok(())
}

/// The acks of a lease. Only what they need is read: the client must not spend the server's time on payloads.
fn settles(leased: &str) -> Result<Vec<Value>, Failure> {
    #[derive(serde::Deserialize)]
    struct Leased {
        jobs: Vec<Delivery>,
    }
    #[derive(serde::Deserialize)]
    struct Delivery {
        id: String,
        lease: String,
    }
    let leased: Leased = serde_json::from_str(leased)
        .map_err(|e| Failure::Broken(format!("a lease could not be read: {e}")))?;
    Ok(leased.jobs.into_iter().map(|d| json!({ "id": d.id, "lease": d.lease, "action": "ack" })).collect())
}

/// What a steady trickle of jobs costs and how long each takes to its handler.
#[derive(Debug)]
pub(super) struct Steady {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Share of one core that the server took.
    pub(super) cpu: f64,
}

/// Publishes `rate` jobs per second for a while, whatever the answers take, and times each from just before its publish
/// to its handler.
pub(super) fn steady(
    runtime: &Runtime,
    server: &Server,
    queue: &str,
    rate: u32,
    span: Duration,
) -> Result<Steady, Failure> {
    let epoch = Instant::now();
    let times = Arc::new(Mutex::new(load::histogram()));
    let worker = Worker::start(timing(epoch, times.clone()))?;
    let url = format!("http://{}/", worker.address);
    let conns = 4;
    let mut open = runtime.block_on(async {
        let mut open = Vec::new();
        for _ in 0..conns {
            open.push(Conn::open(server.address, &server.secret).await?);
        }
        push_queue(&mut open[0], queue, &url).await?;
        Ok::<_, Failure>(open)
    })?;
    let gap = Duration::from_secs(1) / rate;
    let jobs = u64::try_from(span.as_nanos() / gap.as_nanos()).unwrap_or(1);
    let cpu = server.cpu();
    runtime.block_on(async {
        let mut tick = tokio::time::interval(gap);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
        let path = format!("/v1/queues/{queue}/jobs");
        for number in 0..jobs {
            tick.tick().await;
            let body = format!(r#"{{"payload":{{"sent":{}}}}}"#, epoch.elapsed().as_micros());
            let conn = &mut open[usize::try_from(number).unwrap_or(0) % conns];
            conn.post(&path, body.as_bytes()).await?;
        }
        Ok::<_, Failure>(())
    })?;
    until_completed(runtime, server, queue, jobs)?;
    let used = server.cpu().saturating_sub(cpu).as_secs_f64() / span.as_secs_f64();
    drop(worker);
    let times = times.lock().map_err(|_| Failure::Broken("the worker broke".into()))?;
    Ok(Steady { p50_ms: quantile(&times, 0.5), p99_ms: quantile(&times, 0.99), cpu: used })
}

#[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is below 2^52")]
fn quantile(times: &Histogram<u64>, at: f64) -> f64 {
    times.value_at_quantile(at) as f64 / 1000.0
}

/// Looks for the time a job was sent at, in its payload.
fn timing(epoch: Instant, times: Arc<Mutex<Histogram<u64>>>) -> super::worker::Look {
    Arc::new(move |body: &[u8]| {
        let arrived = u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        let text = String::from_utf8_lossy(body);
        let sent = text
            .split_once("\"sent\":")
            .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok());
        if let (Some(sent), Ok(mut times)) = (sent, times.lock()) {
            times.saturating_record(arrived.saturating_sub(sent));
        }
    })
}
