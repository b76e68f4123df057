//! `semel publish`: one job, or a file of them.

mod batch;
pub(super) mod body;

use std::path::PathBuf;

use clap::Args;
use semel_client::http::{Call, Reply};
use serde::Deserialize;

use super::{Outcome, REMOTE_EXIT_CODES, job, print, print_reply};
use crate::failure::Failure;
use crate::remote::{Remote, ServerArgs, Span};
use crate::text::printable;

const EXAMPLES: &str = "\
A key names the business event. Publishing under it again, by a retry of this command or by anybody
else, finds the same job and makes no other. A connection that is lost is tried again under the same
key; without a key it is not, because nobody could tell whether that makes a second job.

Examples:
  semel publish orders '{\"order\":9482}' --key order-9482
  semel publish orders @order.json --key order-9482 --wait 30s     show the result
  jq .order all.json | semel publish orders - --generate-key       each run is another event
  semel publish mail '\"hello\"' --delay 10m --group customer-7 --meta kind=welcome
  semel publish orders --batch orders.jsonl

A line of a batch is what the API takes: {\"payload\":...,\"idempotencyKey\":...,\"delay\":...}. The whole
file is read before anything is sent; each line then succeeds or fails for itself (exit code 1 if
some failed). With --wait, exit code 1 says that the job has not completed.";

/// Publish a job, or a file of them
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct PublishArgs {
    /// The queue
    queue: String,
    /// The payload: JSON, @FILE, or - for stdin
    #[arg(required_unless_present = "batch", conflicts_with = "batch", allow_negative_numbers = true)]
    payload: Option<String>,
    /// The key that names the business event
    #[arg(long, conflicts_with_all = ["generate_key", "batch"])]
    key: Option<String>,
    /// Make up a key, which holds for the retries of this command; in a batch, for lines without one
    #[arg(long)]
    generate_key: bool,
    /// Run it that much later: seconds, or 30s, 5m, 72h, 7d
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["run_at", "batch"])]
    delay: Option<Span>,
    /// Run it at this time, such as 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "batch")]
    run_at: Option<String>,
    /// From -100 to 100, higher first
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "batch")]
    priority: Option<i64>,
    /// The group, for order and fairness
    #[arg(long, conflicts_with = "batch")]
    group: Option<String>,
    /// Delivered with the job, and searchable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = body::entry, conflicts_with = "batch")]
    meta: Vec<(String, String)>,
    /// Wait that long for its end, and show the job then
    #[arg(long, value_name = "SPAN", conflicts_with = "batch")]
    wait: Option<Span>,
    /// Publish the lines of this file, or of stdin (-)
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// The answer to a publish.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Published {
    id: String,
    status: String,
    deduplicated: bool,
    payload_matches: bool,
}

impl PublishArgs {
    /// Publishes.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        if let Some(file) = &self.batch {
            let batch = batch::Batch::read(file, self.generate_key)?;
            return self
                .server
                .talk(async |remote| batch.publish(remote, &self.queue, self.server.json).await);
        }
        let call = self.call()?;
        self.server.talk(async |remote| self.publish(remote, &call).await)
    }

    fn call(&self) -> Result<Call, Failure> {
        let body = body::Body::of(self)?;
        let call = Call::post(&["v1", "queues", &self.queue, "jobs"]).json(body.json()?);
        Ok(if body.has_key() { call } else { call.once() })
    }

    async fn publish(&self, remote: &Remote, call: &Call) -> Result<Outcome, Failure> {
        let reply = remote.call(call).await?;
        let Some(Span(wait)) = self.wait else {
            return self.show(remote, &reply);
        };
        let published: Published = remote.read(&reply)?;
        let (reply, job) = job::wait(remote, &published.id, wait).await?;
        if self.server.json {
            print_reply(&reply)?;
        } else {
            print(&job::view::whole(&job))?;
        }
        Ok(Outcome::of(job.status == "completed"))
    }

    fn show(&self, remote: &Remote, reply: &Reply) -> Result<Outcome, Failure> {
        if self.server.json {
            print_reply(reply)?;
        } else {
            print(&told(&remote.read(reply)?, &self.queue))?;
        }
        Ok(Outcome::Good)
    }
}

fn told(published: &Published, queue: &str) -> String {
    let [id, status] = [&published.id, &published.status].map(|text| printable(text));
    if !published.deduplicated {
        return format!("{id} was published to {}\n", printable(queue));
    }
    let other = if published.payload_matches {
        ""
    } else {
        "  its payload was another one: a key must stand for one event and one payload\n"
    };
    format!("{id} was published under this key before and is {status}; no other job was made\n{other}")
}
