//! `semel dead`: the dead letters.

mod groups;

use clap::{Args, Subcommand};
use semel_client::http::Call;
use serde::Deserialize;

use super::job::view;
use super::jobs::Which;
use super::{Outcome, REMOTE_EXIT_CODES, note, one_by_one, print, print_json, print_reply};
use crate::failure::Failure;
use crate::remote::wire::{Counts, Job, moment};
use crate::remote::{Confirm, Remote, ServerArgs};
use crate::table::{clip, columns};
use crate::text::{count, printable};

const EXAMPLES: &str = "\
A dead letter is a job that used up its attempts, or whose worker said that trying again is no use.
It is kept with its payload and its deliveries until its retention is over.

Examples:
  semel dead                            how many there are, by queue
  semel dead groups orders              what they died of
  semel dead list orders --from 2026-11-15T00:00:00Z
  semel dead show job_06g1zmw4bwdg8     one of them, with every delivery
  semel dead purge orders job_06g1zmw4bwdg8 --yes
  semel dead purge orders --yes         all of them; their keys hold until their windows end
  semel replay --queue orders           give them another life

Exit code 1 says that there are some.";

/// List, group and purge dead letters
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the dead letters of a queue, newest first
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    List(ListArgs),
    /// Group the dead letters of a queue by what they died of
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Groups(groups::GroupsArgs),
    /// Show one dead letter, with every delivery of it
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Show(ShowArgs),
    /// Delete dead letters, for good
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Purge(PurgeArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The queue
    queue: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The job
    id: String,
}

#[derive(Debug, Args)]
struct PurgeArgs {
    /// The queue
    queue: String,
    /// Which of its dead letters; all if none is named
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Deserialize)]
struct Queues {
    queues: Vec<Queue>,
}

#[derive(Deserialize)]
struct Queue {
    name: String,
    counts: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Purged {
    purged: u64,
    complete: bool,
    next_cursor: Option<String>,
}

impl DeadArgs {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let Self { task, server } = self;
        let json = server.json;
        match task {
            None => server.talk(async |remote| overview(remote, json).await),
            Some(Task::List(args)) => server.talk(async |remote| list(remote, &args, json).await),
            Some(Task::Groups(args)) => server.talk(async |remote| args.show(remote, json).await),
            Some(Task::Show(args)) => server.talk(async |remote| show(remote, &args.id, json).await),
            Some(Task::Purge(args)) => {
                let what = if args.ids.is_empty() { "all".to_owned() } else { args.ids.len().to_string() };
                let queue = printable(&args.queue);
                args.confirm.ask(&format!("purging {what} dead letters of {queue}"))?;
                if args.ids.is_empty() {
                    server.talk(async |remote| purge_all(remote, &args.queue, json).await)
                } else {
                    server.talk(async |remote| purge_these(remote, &args).await)
                }
            }
        }
    }
}

/// How many dead letters each queue has; those without any are left out.
pub(super) async fn by_queue(remote: &Remote) -> Result<Vec<(String, u64)>, Failure> {
    let queues: Queues = remote.ask(&Call::get(&["v1", "queues"])).await?;
    let counted = queues.queues.into_iter().map(|queue| (queue.name, queue.counts.dead));
    Ok(counted.filter(|(_, dead)| *dead > 0).collect())
}

async fn overview(remote: &Remote, json: bool) -> Result<Outcome, Failure> {
    let found = by_queue(remote).await?;
    if json {
        let found: serde_json::Map<_, _> =
            found.iter().map(|(queue, n)| (queue.clone(), (*n).into())).collect();
        print_json(&serde_json::json!({ "dead": found }))?;
    } else if found.is_empty() {
        note("no dead letters");
    } else {
        print(&columns(["queue", "dead"], found.iter().map(|(queue, n)| [printable(queue), count(*n)])))?;
        note("`semel dead groups QUEUE` shows what they died of");
    }
    Ok(Outcome::of(found.is_empty()))
}

const HEAD: [&str; 5] = ["job", "attempts", "died", "key", "error"];

/// How wide keys and errors may be for a line that fits a terminal.
const KEY_WIDE: usize = 20;
const ERROR_WIDE: usize = 32;

fn row(job: &Job) -> [String; 5] {
    let clipped =
        |text: Option<&str>, wide| text.map(|text| clip(&printable(text), wide)).unwrap_or_default();
    [
        printable(&job.id),
        format!("{}/{}", job.attempts, job.max_attempts),
        job.completed_at.as_deref().map(moment).unwrap_or_default(),
        clipped(job.idempotency_key.as_deref(), KEY_WIDE),
        clipped(job.last_error.as_deref(), ERROR_WIDE),
    ]
}

async fn list(remote: &Remote, args: &ListArgs, json: bool) -> Result<Outcome, Failure> {
    let call = Call::get(&["v1", "queues", &args.queue, "dead"]);
    let shown = args.which.list(remote, &call, json, (HEAD, row)).await?;
    Ok(Outcome::of(shown == 0))
}

async fn show(remote: &Remote, id: &str, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(&Call::get(&["v1", "jobs", id])).await?;
    let job: Job = remote.read(&reply)?;
    if json {
        print_reply(&reply)?;
    } else {
        print(&view::whole(&job))?;
    }
    if job.status != "dead" {
        note(&format!("it is {}, not a dead letter", printable(&job.status)));
    }
    Ok(Outcome::of(job.status != "dead"))
}

async fn purge_these(remote: &Remote, args: &PurgeArgs) -> Result<Outcome, Failure> {
    let queue = &args.queue;
    one_by_one(&args.ids, async |id| {
        remote.call(&Call::delete(&["v1", "queues", queue, "dead", id])).await?;
        note(&format!("{} was purged", printable(id)));
        Ok(())
    })
    .await
}

/// One request purges a bounded number of them, so it is asked until all are gone.
async fn purge_all(remote: &Remote, queue: &str, json: bool) -> Result<Outcome, Failure> {
    let (mut purged, mut cursor) = (0, None);
    loop {
        let call = Call::delete(&["v1", "queues", queue, "dead"]).query("confirm", queue);
        let call = cursor.iter().fold(call, |call, cursor: &String| call.query("cursor", cursor));
        let page: Purged = remote.ask(&call).await?;
        purged += page.purged;
        if page.complete {
            break;
        }
        cursor = page.next_cursor;
    }
    if json {
        print_json(&serde_json::json!({ "purged": purged }))?;
    } else {
        print(&format!("{} dead letters of {} were purged\n", count(purged), printable(queue)))?;
    }
    Ok(Outcome::Good)
}
