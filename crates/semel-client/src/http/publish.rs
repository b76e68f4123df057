//! Publishing one job.

use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::address::segment;
use super::exchange::Ask;
use super::{Client, Error, Job};
use crate::{Publish, State, time};

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// The job, new or found.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Where it stands.
    #[serde(rename = "status")]
    pub state: State,
    /// When it was published first.
    #[serde(deserialize_with = "time::read")]
    pub created_at: SystemTime,
    /// Whether this publish was answered with an earlier one's job. A retry of the client's own, after an answer that was
    /// lost, looks like this, too.
    pub deduplicated: bool,
    /// Whether the payload is that of the first publish; true for a new job.
    pub payload_matches: bool,
    /// When the key stops holding; `None` while the job is unfinished.
    #[serde(deserialize_with = "time::read_maybe")]
    pub key_expires_at: Option<SystemTime>,
}

impl Client {
    /// Publishes, or finds the job that was published under the same key.
    ///
    /// The key is that of the [`Publish`], which had it before this call: however often this is tried, by the client or by
    /// calling it again with the same value, there is one job.
    pub async fn publish(&self, publish: &Publish) -> Result<Published, Error> {
        let path = format!("/v1/queues/{}/jobs", segment(publish.queue()));
        self.ask(&Ask::post(self, &path, body(publish)?)?).await?.read()
    }

    /// Publishes and waits for the end of the job, no longer than `within`. The job is returned as it is then; look at
    /// [`Job::state`]. A publish that was answered with an earlier one's job waits for that one, so that a caller who
    /// tries again gets the first run's result.
    pub async fn publish_and_wait(&self, publish: &Publish, within: Duration) -> Result<Job, Error> {
        let published = self.publish(publish).await?;
        self.wait(&published.id, within).await
    }
}

/// A publish as the API takes it.
fn body(publish: &Publish) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    write(publish, &mut body)?;
    Ok(body)
}

/// The same, after what is there already.
pub(super) fn write(publish: &Publish, body: &mut Vec<u8>) -> Result<(), Error> {
    serde_json::to_writer(body, publish)
        .map_err(|error| Error::Setup(format!("a publish cannot be written: {error}")))
}
