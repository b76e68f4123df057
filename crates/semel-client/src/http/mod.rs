//! The client of a server's HTTP API.
//!
//! Every call has a deadline over all of its tries. Within it a call is tried again when the server could not be reached,
//! did not answer, or said that it is busy, with growing, jittered waits and never before `Retry-After`. Nothing is
//! published twice by that: a [`Publish`](crate::Publish) has its key before the first try.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use semel_client::{Publish, http::{Client, Code, Error}};
//!
//! let client = Client::builder("https://semel.internal").api_key("sml_...").deadline(Duration::from_secs(10)).build()?;
//! let wish = Publish::new("reports", &serde_json::json!({ "month": "2026-11" }))?.key("report-2026-11");
//! match client.publish_and_wait(&wish, Duration::from_secs(60)).await {
//!     Ok(job) if job.state.is_finished() => println!("{}: {:?}", job.state, job.result::<String>()?),
//!     Ok(job) => println!("{} goes on without us", job.id),
//!     Err(Error::Refused(problem)) if problem.code == Code::KeyCollision => println!("differs at {:?}", problem.pointers),
//!     // The same wish may be sent again, now or by another process: the key makes it one publish.
//!     Err(error) if error.retryable() => println!("later: {error}"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod batch;
mod call;
mod client;
mod connect;
mod error;
mod events;
mod exchange;
mod job;
mod jobs;
mod patience;
mod problem;
mod publish;
#[cfg(feature = "worker")]
pub(crate) mod work;

pub use batch::{BATCH_BYTES_MAX, BATCH_COUNT_MAX};
pub use call::{Call, Reply};
pub use client::{Builder, Client};
pub use error::{Error, Failure};
pub use events::{Event, Events};
pub use job::{Attempt, AttemptStatus, Job};
pub use problem::{Code, Problem, Violation};
pub use publish::Published;
