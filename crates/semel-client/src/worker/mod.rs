//! A worker that pulls its jobs.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use semel_client::{Delivery, Outcome, http::Client, worker::Worker};
//!
//! let client = Client::builder("http://127.0.0.1:7477").api_key("sml_...").build()?;
//! let worker = Worker::new(&client, "thumbnails").concurrency(8).lease(Duration::from_secs(30));
//! let stop = async { tokio::signal::ctrl_c().await.expect("signals can be listened for") };
//! let tally = worker.run(thumbnail, stop).await?;
//! println!("{} done", tally.done);
//! # Ok(())
//! # }
//!
//! async fn thumbnail(delivery: semel_client::Delivery) -> semel_client::Outcome {
//!     use semel_client::Outcome;
//!     match delivery.payload::<String>() {
//!         Ok(name) => Outcome::done_with(&format!("{name}.thumb")),
//!         // No other attempt will read it either.
//!         Err(error) => Outcome::reject(error),
//!     }
//! }
//! ```
//!
//! What it does by itself: leases as many jobs as it has room for, waiting for them on the server; extends the leases of
//! what it works on, on a task of its own; settles in batches, with receipts and results; breaks off the work on a delivery
//! that is no longer its own; and when it is told to stop, takes nothing more, finishes what it has, and puts back
//! what it could not finish without burning an attempt.

mod fetch;
mod heartbeat;
mod held;
mod settler;
mod tally;

use std::time::Duration;

pub use tally::Tally;

use crate::http::Client;

/// A worker of one queue.
#[derive(Debug, Clone)]
pub struct Worker {
    client: Client,
    queue: String,
    concurrency: usize,
    lease: Duration,
    poll: Duration,
    grace: Duration,
}

impl Worker {
    /// A worker of this queue: one job at a time, leases of 30 s, 30 s to finish when it is to stop.
    pub fn new(client: &Client, queue: impl Into<String>) -> Self {
        Self {
            client: client.patient(),
            queue: queue.into(),
            concurrency: 1,
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(20),
            grace: Duration::from_secs(30),
        }
    }

    /// How many jobs it works on at once (1).
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// How long a job stays its own without a heartbeat (30 s): what a job waits longest after its worker died. Heartbeats
    /// come three times as often. A second at least.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// How long a request for jobs waits on the server (20 s, at most 30).
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll.min(Duration::from_secs(30));
        self
    }

    /// How long it goes on with what it has when it is to stop (30 s). What is not finished then is put back.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}
