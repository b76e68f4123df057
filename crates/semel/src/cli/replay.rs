//! `semel replay`: another life for dead letters.

mod bulk;
mod follow;
mod task;

use clap::{Args, Subcommand};
use semel_client::http::Call;

use super::{Outcome, REMOTE_EXIT_CODES, one_by_one, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::Job;
use crate::remote::{Remote, ServerArgs};
use crate::text::printable;

const EXAMPLES: &str = "\
A replayed job has the same id and the same key: a handler with a ledger knows it again. Many are
replayed by a task on the server, which goes on without this command and can be called off.
--preflight counts first what is known about the effects of those it would replay, and asks.

Examples:
  semel replay job_06g1zmw4bwdg8                           this one
  semel replay --queue orders --dry-run                    count, change nothing
  semel replay --queue orders --preflight --rate 50        look, ask, then 50 a second
  semel replay --queue orders --error 'connection refused' --effect notApplied
  semel replay --all --yes                                 every queue
  semel replay status                                      the tasks of the last week
  semel replay status rpl_019a8 --follow
  semel replay cancel rpl_019a8                            what it has replayed stays replayed

Exit code 1 says that some could not be replayed, or that the task was called off. Ctrl-C ends this
command and not the task, unless you say so.";

const TASK_EXAMPLES: &str = "Examples:
  semel replay status                  the tasks of the last week
  semel replay status rpl_019a8 --follow
  semel replay cancel rpl_019a8        what it has replayed stays replayed";

/// Give dead letters another life: some, those of a queue, or all
#[derive(Debug, Args)]
#[command(
    after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"),
    args_conflicts_with_subcommands = true
)]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    task: Option<Task>,
    /// The jobs
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    bulk: bulk::BulkArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Show a replay task, or those of the last week
    #[command(after_help = format!("{TASK_EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Status(StatusArgs),
    /// Call a replay task off
    #[command(after_help = format!("{TASK_EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// The task; all if it is left out
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Wait for its end
    #[arg(long, requires = "task")]
    follow: bool,
}

#[derive(Debug, Args)]
struct CancelArgs {
    /// The task
    #[arg(value_name = "TASK")]
    task: String,
}

impl ReplayArgs {
    /// Replays, or looks after a replay.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let Self { task, ids, bulk, server } = self;
        let json = server.json;
        match task {
            Some(Task::Status(StatusArgs { task: Some(id), follow: true })) => {
                let ended = server.talk(async |remote| follow::to_its_end(remote, &id, None, json).await)?;
                Ok(task::outcome(ended.as_ref()))
            }
            Some(Task::Status(StatusArgs { task: Some(id), .. })) => server
                .talk(async |remote| task::show(remote, &Call::get(&["v1", "replays", &id]), json).await),
            Some(Task::Status(_)) => server.talk(async |remote| task::list(remote, json).await),
            Some(Task::Cancel(CancelArgs { task: id })) => server
                .talk(async |remote| task::show(remote, &Call::delete(&["v1", "replays", &id]), json).await),
            None if ids.is_empty() => bulk.run(&server),
            None => server.talk(async |remote| each(remote, &ids, json).await),
        }
    }
}

/// Replays these, one by one.
async fn each(remote: &Remote, ids: &[String], json: bool) -> Result<Outcome, Failure> {
    one_by_one(ids, async |id| {
        let reply = remote.call(&Call::post(&["v1", "jobs", id, "replay"])).await?;
        if json {
            return print_reply(&reply);
        }
        let job: Job = remote.read(&reply)?;
        print(&format!("{} is {} again\n", printable(&job.id), printable(&job.status)))
    })
    .await
}
