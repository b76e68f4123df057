//! Replaying the dead letters of a queue, or of all.

use clap::{Args, ValueEnum};
use semel_client::http::{Call, Reply};
use serde::Serialize;

use super::super::{Outcome, dead, note, print, print_reply};
use super::follow;
use super::task::{self, Replay};
use crate::failure::Failure;
use crate::remote::{Confirm, Remote, ServerArgs};
use crate::text::{count, printable};

/// Which dead letters, and how.
#[derive(Debug, Args)]
pub(super) struct BulkArgs {
    /// Those of this queue
    #[arg(long, required_unless_present_any = ["ids", "all"])]
    queue: Option<String>,
    /// Those of all queues
    #[arg(long, conflicts_with = "queue")]
    all: bool,
    /// Only those of this error, as `semel dead groups` shows it
    #[arg(long, conflicts_with = "ids")]
    error: Option<String>,
    /// Only those of this group
    #[arg(long, conflicts_with = "ids")]
    group: Option<String>,
    /// Only those that died at or after this time
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    from: Option<String>,
    /// Only those that died before this time
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    to: Option<String>,
    /// Only those of whose effect this is known; may be given several times
    #[arg(long, value_name = "WHAT", conflicts_with = "ids")]
    effect: Vec<Effect>,
    /// Most jobs a second
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "ids")]
    rate: Option<u32>,
    /// Count what would be replayed, and change nothing
    #[arg(long, conflicts_with_all = ["ids", "preflight"])]
    dry_run: bool,
    /// Count first, then ask
    #[arg(long, conflicts_with = "ids")]
    preflight: bool,
    /// Start the task and do not wait for its end
    #[arg(long, conflicts_with = "ids")]
    detach: bool,
    #[command(flatten)]
    confirm: Confirm,
}

/// What is known about the effect of a dead letter.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Effect {
    // It has happened: without a ledger it happens again.
    Applied,
    // It has not happened.
    #[value(name = "notApplied", alias = "not-applied")]
    NotApplied,
    // Nobody can tell.
    Unknown,
}

/// A task as the API takes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Wish<'a> {
    filter: Filter<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    dry_run: bool,
}

#[derive(Debug, Serialize)]
struct Filter<'a> {
    error: Option<&'a str>,
    group: Option<&'a str>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    effects: &'a [Effect],
}

impl BulkArgs {
    /// Replays.
    pub(super) fn run(&self, server: &ServerArgs) -> Result<Outcome, Failure> {
        if self.all && !self.dry_run && !self.preflight {
            self.confirm.ask("replaying the dead letters of all queues")?;
        }
        server.talk(async |remote| self.every_queue(remote, server.json).await)
    }

    async fn every_queue(&self, remote: &Remote, json: bool) -> Result<Outcome, Failure> {
        let queues = match &self.queue {
            Some(queue) => vec![(queue.clone(), dead_of(remote, queue).await?)],
            None => {
                let found = dead::by_queue(remote).await?;
                found.into_iter().map(|(queue, dead)| (queue, Some(dead))).collect()
            }
        };
        if queues.is_empty() {
            note("no dead letters");
        }
        let mut outcome = Outcome::Good;
        for (queue, dead) in &queues {
            if self.one_queue(remote, queue, *dead, json).await? == Outcome::Problems {
                outcome = Outcome::Problems;
            }
        }
        Ok(outcome)
    }

    async fn one_queue(
        &self,
        remote: &Remote,
        queue: &str,
        dead: Option<u64>,
        json: bool,
    ) -> Result<Outcome, Failure> {
        if self.preflight {
            let (_, task) = self.start(remote, queue, true).await?;
            match follow::to_its_end(remote, &task.id, dead, json).await?.map(|seen| seen.counts.matched) {
                None => return Ok(Outcome::Problems),
                Some(0) => return Ok(Outcome::Good),
                Some(n) => {
                    let what = format!("replaying {} dead letters of {}", count(n), printable(queue));
                    self.confirm.ask(&what)?;
                }
            }
        }
        let (reply, task) = self.start(remote, queue, self.dry_run).await?;
        if !self.detach {
            return Ok(task::outcome(follow::to_its_end(remote, &task.id, dead, json).await?.as_ref()));
        }
        let id = printable(&task.id);
        if json {
            print_reply(&reply)?;
        } else {
            print(&format!("{id}\n"))?;
            note(&format!("it has begun: `semel replay status {id} --follow` shows how far it is"));
        }
        Ok(Outcome::Good)
    }

    async fn start(&self, remote: &Remote, queue: &str, dry_run: bool) -> Result<(Reply, Replay), Failure> {
        let filter = Filter {
            error: self.error.as_deref(),
            group: self.group.as_deref(),
            from: self.from.as_deref(),
            to: self.to.as_deref(),
            effects: &self.effect,
        };
        let wish = Wish { filter, rate: self.rate, dry_run };
        let call = Call::post(&["v1", "queues", queue, "dead", "replay"]).once().body(&wish);
        let reply = remote.call(&call.map_err(|error| remote.failure(&error))?).await?;
        let task = remote.read(&reply)?;
        Ok((reply, task))
    }
}

/// How many dead letters a queue has. It only says how long the bar is, so a key that may replay and not read will do.
async fn dead_of(remote: &Remote, queue: &str) -> Result<Option<u64>, Failure> {
    match dead::by_queue(remote).await {
        Ok(found) => Ok(Some(found.iter().find(|(name, _)| name == queue).map_or(0, |(_, dead)| *dead))),
        Err(Failure::Server(trouble)) if trouble.is_denial() => Ok(None),
        Err(failure) => Err(failure),
    }
}
