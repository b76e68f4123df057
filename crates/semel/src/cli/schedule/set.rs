//! Making and changing a schedule.

use clap::Args;
use semel_client::http::{Call, Reply};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::publish::body::payload;
use super::Schedule;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::text::printable;

/// What of it.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The schedule
    name: String,
    /// The payload of each job: JSON, @FILE, or - for stdin
    #[arg(allow_negative_numbers = true)]
    payload: Option<String>,
    /// The queue it publishes to
    #[arg(long)]
    queue: Option<String>,
    /// When: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly
    #[arg(long)]
    cron: Option<String>,
    /// The time zone that is meant [default for a new one: UTC]
    #[arg(long)]
    zone: Option<String>,
}

/// A schedule as the API takes it.
#[derive(Serialize)]
struct Body {
    queue: String,
    cron: String,
    zone: Option<String>,
    payload: Box<RawValue>,
}

impl SetArgs {
    /// Reads what there is, changes it, and puts it back.
    pub(super) async fn set(&self, remote: &Remote) -> Result<Reply, Failure> {
        let given = self.payload.as_deref().map(payload).transpose()?;
        let path = ["v1", "schedules", &self.name];
        let found = remote.look_up(&Call::get(&path)).await?;
        let before = found.map(|reply| remote.read::<Schedule>(&reply)).transpose()?;
        let body = self.body(given, before)?;
        let call = Call::put(&path).body(&body).map_err(|error| remote.failure(&error))?;
        remote.call(&call).await
    }

    fn body(&self, payload: Option<Box<RawValue>>, before: Option<Schedule>) -> Result<Body, Failure> {
        let missing = |what: &str| {
            Failure::Usage(format!("there is no schedule {} yet: give {what}", printable(&self.name)))
        };
        let (queue, cron, zone, kept) = match before {
            Some(Schedule { queue, cron, zone, payload, .. }) => {
                (Some(queue), Some(cron), Some(zone), payload)
            }
            None => (None, None, None, None),
        };
        Ok(Body {
            queue: self.queue.clone().or(queue).ok_or_else(|| missing("--queue"))?,
            cron: self.cron.clone().or(cron).ok_or_else(|| missing("--cron"))?,
            zone: self.zone.clone().or(zone),
            payload: payload.or(kept).ok_or_else(|| missing("a payload"))?,
        })
    }
}
