//! `semel job`: one job.

pub(super) mod view;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use semel_client::http::{Call, Reply};

use super::{Outcome, REMOTE_EXIT_CODES, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::Job;
use crate::remote::{HOLD_MAX, Remote, ServerArgs, Span};

const EXAMPLES: &str = "\
Examples:
  semel job job_06g1zmw4bwdg8             where it stands, and every delivery of it
  semel job job_06g1zmw4bwdg8 --wait 5m   the same, once it has ended
  semel job job_06g1zmw4bwdg8 cancel      call it off; a worker that has it is not stopped
  semel job job_06g1zmw4bwdg8 --json | jq .result

With --wait, exit code 1 says that the job has not completed.";

/// Show a job: state, deliveries, result; or cancel it
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct JobArgs {
    /// The job
    id: String,
    /// What to do with it: cancel calls it off
    #[arg(value_name = "ACTION")]
    action: Option<Action>,
    /// Wait that long for its end: seconds, or 30s, 5m
    #[arg(long, value_name = "SPAN", conflicts_with = "action")]
    wait: Option<Span>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    Cancel,
}

impl JobArgs {
    /// Shows the job, after what was to be done with it.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let (reply, job) = self.server.talk(async |remote| match (self.action, self.wait) {
            (Some(Action::Cancel), _) => read(remote, &Call::post(&["v1", "jobs", &self.id, "cancel"])).await,
            (None, Some(Span(within))) => wait(remote, &self.id, within).await,
            (None, None) => read(remote, &Call::get(&["v1", "jobs", &self.id])).await,
        })?;
        if self.server.json {
            print_reply(&reply)?;
        } else {
            print(&view::whole(&job))?;
        }
        Ok(Outcome::of(self.wait.is_none() || job.status == "completed"))
    }
}

async fn read(remote: &Remote, call: &Call) -> Result<(Reply, Job), Failure> {
    let reply = remote.call(call).await?;
    let job = remote.read(&reply)?;
    Ok((reply, job))
}

/// Waits for the end of a job, no longer than this; the job as it is then.
pub(super) async fn wait(remote: &Remote, id: &str, within: Duration) -> Result<(Reply, Job), Failure> {
    let begun = Instant::now();
    loop {
        let left = within.saturating_sub(begun.elapsed());
        // Rounded down: a wait that is almost over is looked at, and not waited out for a second.
        let hold = left.as_secs().min(HOLD_MAX);
        let call = Call::get(&["v1", "jobs", id]).query("wait", hold).holding(Duration::from_secs(hold));
        let (reply, job) = read(remote, &call).await?;
        // A server that stops answers early, so only the clock says that the time is over.
        if job.has_ended() || left.is_zero() {
            return Ok((reply, job));
        }
        if hold == 0 {
            tokio::time::sleep(left).await;
        }
    }
}
