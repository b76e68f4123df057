//! `semel listen`: develop webhooks without a public address.

use std::time::Duration;

use clap::Args;
use semel_client::http::{Call, Code, Error};
use semel_client::worker::{Tally, Worker};
use semel_server::config::{LogConfig, LogFormat, LogLevel};
use semel_server::delivery::endpoint::Endpoint;
use semel_server::delivery::sign;
use serde_json::Value;

use super::{ENDED_AT_ONCE, Outcome, REMOTE_EXIT_CODES, note};
use crate::failure::Failure;
use crate::listen::{Forward, Forwarder};
use crate::remote::{Remote, ServerArgs};
use crate::{logs, signals, text};

const EXAMPLES: &str = "\
Jobs are leased here and posted to the URL as the server would post them: the same body and headers,
signed (Standard Webhooks). The answer settles the job as it would there: 2xx is done; 429, 503 and
529 put it off without burning an attempt, for as long as Retry-After says; 410 or `Semel-Retry: no`
makes it a dead letter; anything else is a failed attempt.

The queue must be a pull queue. One that pushes does so by itself, so listening would get only some
of its jobs; try on a queue of your own instead. Only URLs on this machine are taken, because
payloads should not leave it by a typo; --allow-remote takes any.

Examples:
  semel listen --queue orders --forward-to http://localhost:8080/webhooks
  semel listen --queue orders --forward-to http://localhost:8080/ --secret whsec_...
  semel listen --queue orders --forward-to http://localhost:8080/ --json | jq .outcome

Ctrl-C takes no more jobs, finishes those under way and ends; a second one ends at once.";

/// How long work under way may take to end after Ctrl-C: as long as one call may take, and its settle.
const GRACE_MORE: Duration = Duration::from_secs(5);

/// Pull jobs here and push them to a local URL: webhooks without a public address
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}\n{ENDED_AT_ONCE}"))]
pub(crate) struct ListenArgs {
    /// The queue, which must be a pull queue
    #[arg(long, value_name = "QUEUE")]
    queue: String,
    /// The webhook
    #[arg(long, value_name = "URL")]
    forward_to: String,
    /// What signs the deliveries; a new one is made and printed if absent
    #[arg(long, value_name = "SECRET", env = "SEMEL_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Take a URL that is not on this machine
    #[arg(long)]
    allow_remote: bool,
    /// Jobs at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Seconds that the webhook may take
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=900))]
    timeout: u64,
    #[command(flatten)]
    server: ServerArgs,
}

impl ListenArgs {
    /// Forwards until a signal ends it.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let forward = self.forward()?;
        logs::start(LogConfig { level: LogLevel::Warn, format: LogFormat::Text });
        let stop = signals::listen()?;
        let tally = self.server.talk(async |remote| {
            must_pull(remote, &self.queue).await?;
            self.welcome(remote, &forward.secret);
            let worker = Worker::new(remote.client(), &self.queue).concurrency(forward.at_once);
            let worker = worker.grace(forward.timeout + GRACE_MORE);
            let ended = worker.run(Forwarder::new(forward)?, stop.stopped()).await;
            ended.map_err(|error| remote.failure(&error))
        })?;
        note(&farewell(&tally));
        Ok(Outcome::Good)
    }

    fn forward(&self) -> Result<Forward, Failure> {
        Ok(Forward {
            to: self.endpoint()?,
            timeout: Duration::from_secs(self.timeout),
            secret: self.secret.clone().unwrap_or_else(sign::new_secret),
            anywhere: self.allow_remote,
            at_once: usize::from(self.concurrency),
            json: self.server.json,
        })
    }

    fn endpoint(&self) -> Result<Endpoint, Failure> {
        let url = &self.forward_to;
        let wrong = |what: &str| Failure::Usage(format!("--forward-to {}: {what}", text::printable(url)));
        let to = Endpoint::parse(url).map_err(|_| {
            wrong("must be http:// or https:// with a host, such as http://localhost:8080/hook")
        })?;
        if !to.is_on_this_machine() && !self.allow_remote {
            return Err(wrong("is not on this machine; if jobs are to go there, say --allow-remote"));
        }
        Ok(to)
    }

    /// What a developer needs to know. It is on stderr, so that stdout is deliveries alone.
    fn welcome(&self, remote: &Remote, secret: &str) {
        let (queue, url) = (text::printable(&self.queue), text::printable(&self.forward_to));
        note(&format!("Jobs of queue {queue} on {} go to {url}.", remote.server()));
        if self.secret.is_none() {
            note(&format!("They are signed with {secret} (Standard Webhooks), for this run."));
        }
        note("Ctrl-C finishes what is under way and ends.");
    }
}

/// A queue that pushes has its jobs taken by the server. Who may not read the queue, or comes before it, is not stopped by
/// that.
async fn must_pull(remote: &Remote, queue: &str) -> Result<(), Failure> {
    let found = match remote.client().call(&Call::get(&["v1", "queues", queue])).await {
        Ok(reply) => remote.read::<Value>(&reply)?,
        Err(Error::Refused(problem)) if matches!(problem.code, Code::QueueNotFound | Code::Forbidden) => {
            return Ok(());
        }
        Err(error) => return Err(remote.failure(&error)),
    };
    match found["delivery"]["type"].as_str() {
        Some("push") => Err(Failure::Usage(format!(
            "queue {0} pushes its jobs by itself, so they do not come here: listen on a pull queue of your own, \
             or make this one a pull queue for as long as you develop: `semel queue set {0} delivery.type=pull`",
            text::printable(queue)
        ))),
        _ => Ok(()),
    }
}

fn farewell(tally: &Tally) -> String {
    let Tally { done, failed, deferred, lost, unsettled, .. } = tally;
    let mut words = format!("{done} done, {failed} failed, {deferred} deferred");
    for (count, what) in
        [(lost, "lost to another worker"), (unsettled, "not settled: they will be delivered again")]
    {
        if *count > 0 {
            words.push_str(&format!(", {count} {what}"));
        }
    }
    words
}
