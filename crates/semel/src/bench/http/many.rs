//! Many queues that push to one worker: with a queue among them whose endpoint never answers, and without.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::client::Conn;
use super::flows::{per_second, push_queue, until_completed, until_handled};
use super::server::Server;
use super::worker::Worker;
use crate::failure::Failure;

/// Connections that publish.
const PUBLISHERS: u64 = 16;

/// Jobs of the queue whose endpoint never answers.
const DARK_JOBS: usize = 256;

/// What the queues' names begin with.
const PREFIX: &str = "many-";

/// Completed jobs per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    /// Without a queue that gets no answers.
    pub(super) bright: f64,
    /// With one.
    pub(super) dark: f64,
}

/// Measures two servers that differ in that one queue, in two pairs: each is first in one of them, so that neither has the
/// quieter machine or the smaller store.
pub(super) fn rates(runtime: &Runtime, dir: &Path, queues: u64, jobs: u64) -> Result<Rates, Failure> {
    let mut bright = Crowd::start(runtime, &dir.join("bright"), queues)?;
    let mut dark = Crowd::start(runtime, &dir.join("dark"), queues)?;
    let _silent = dark.add_blackhole(runtime)?;
    // Both are warm before anything counts.
    bright.run(runtime, jobs / 10)?;
    dark.run(runtime, jobs / 10)?;
    let half = |crowd: &mut Crowd| crowd.run(runtime, jobs / 2);
    let (bright_first, dark_second) = (half(&mut bright)?, half(&mut dark)?);
    let (dark_third, bright_last) = (half(&mut dark)?, half(&mut bright)?);
    Ok(Rates {
        bright: f64::midpoint(bright_first, bright_last),
        dark: f64::midpoint(dark_second, dark_third),
    })
}

/// A server with many queues, and the worker they push to.
struct Crowd {
    server: Server,
    worker: Worker,
    queues: u64,
    published: u64,
}

impl Crowd {
    fn start(runtime: &Runtime, dir: &Path, queues: u64) -> Result<Self, Failure> {
        let (server, worker) = (Server::durable(dir)?, Worker::start(Arc::new(|_: &[u8]| {}))?);
        let url = format!("http://{}/", worker.address);
        runtime.block_on(async {
            let mut conn = Conn::open(server.address, &server.secret).await?;
            for n in 0..queues {
                push_queue(&mut conn, &format!("{PREFIX}{n}"), &url).await?;
            }
            Ok::<_, Failure>(())
        })?;
        Ok(Self { server, worker, queues, published: 0 })
    }

    /// Adds a queue with jobs for a listener that nobody accepts from: connections are made, and never answered.
    fn add_blackhole(&self, runtime: &Runtime) -> Result<TcpListener, Failure> {
        let silent = TcpListener::bind("127.0.0.1:0").map_err(Failure::io("listen in silence"))?;
        let at = silent.local_addr().map_err(Failure::io("ask for our address"))?;
        runtime.block_on(async {
            let mut conn = Conn::open(self.server.address, &self.server.secret).await?;
            push_queue(&mut conn, "dark", &format!("http://{at}/")).await?;
            for _ in 0..DARK_JOBS {
                conn.post("/v1/queues/dark/jobs", br#"{"payload":1}"#).await?;
            }
            Ok::<_, Failure>(())
        })?;
        Ok(silent)
    }

    /// Publishes jobs to all queues in turn; completed jobs per second, first publish to last completion.
    fn run(&mut self, runtime: &Runtime, jobs: u64) -> Result<f64, Failure> {
        let each = (jobs / PUBLISHERS).max(1);
        let began = Instant::now();
        runtime.block_on(self.publish(each))?;
        let jobs = each * PUBLISHERS;
        self.published += jobs;
        until_handled(&self.worker, self.published)?;
        until_completed(runtime, &self.server, PREFIX, self.published)?;
        Ok(per_second(jobs, began.elapsed()))
    }

    async fn publish(&self, each: u64) -> Result<(), Failure> {
        let mut publishers = JoinSet::new();
        for lane in 0..PUBLISHERS {
            let (queues, mut conn) =
                (self.queues, Conn::open(self.server.address, &self.server.secret).await?);
            publishers.spawn(async move {
                for n in 0..each {
                    let queue = (n * PUBLISHERS + lane) % queues;
                    conn.post(&format!("/v1/queues/{PREFIX}{queue}/jobs"), br#"{"payload":1}"#).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = publishers.join_next().await {
            ended.map_err(|e| Failure::Broken(format!("a publisher broke: {e}")))??;
        }
        Ok(())
    }
}
