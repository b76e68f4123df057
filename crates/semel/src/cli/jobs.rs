//! `semel jobs`: many jobs, newest first.

use std::ops::ControlFlow;

use clap::Args;
use semel_client::http::Call;

use super::publish::body::entry;
use super::{Outcome, REMOTE_EXIT_CODES, note, print, print_reply};
use crate::failure::Failure;
use crate::paint::{Paint, Tone, of_status};
use crate::remote::wire::{Job, JobPage, moment};
use crate::remote::{Remote, ServerArgs};
use crate::table::{clip, painted};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  semel jobs                                            the newest 50
  semel jobs --queue orders --status dead
  semel jobs --queue orders --key order-9482            every job that was published under it
  semel jobs --from 2026-11-15T00:00:00Z --meta tenant=7 --all
  semel jobs --duplicated 3                             whose key or effect came back three times
  semel jobs --all --json | jq -r '.jobs[].id'          one document per page

A status is pending, processing, awaiting_ack, completed, dead or cancelled.";

/// Most jobs in one page, as the server has it.
const PAGE_MAX: usize = 1000;

/// List jobs, newest first
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct JobsArgs {
    /// Only this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only this status
    #[arg(long)]
    status: Option<String>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    server: ServerArgs,
}

/// Which jobs, and how many of them. Jobs and dead letters are picked alike.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Only this key
    #[arg(long)]
    key: Option<String>,
    /// Only this group
    #[arg(long)]
    group: Option<String>,
    /// Only with this metadata; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = entry)]
    meta: Vec<(String, String)>,
    /// Published at or after this time, such as 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Published before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Whose key or effect came back at least this often
    #[arg(long, value_name = "TIMES")]
    duplicated: Option<u32>,
    /// How many at most
    #[arg(long, value_name = "JOBS", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// As many as there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on where a listing ended
    #[arg(long)]
    cursor: Option<String>,
}

impl JobsArgs {
    /// Lists.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let call = Call::get(&["v1", "jobs"]);
        let call = [("queue", &self.queue), ("status", &self.status)]
            .into_iter()
            .fold(call, |call, (name, value)| with(call, name, value.as_ref()));
        self.server
            .talk(async |remote| self.which.list(remote, &call, self.server.json, (HEAD, row)).await)?;
        Ok(Outcome::Good)
    }
}

fn with(call: Call, name: &str, value: Option<&String>) -> Call {
    match value {
        Some(value) => call.query(name, value),
        None => call,
    }
}

impl Which {
    /// What a listing is asked for, but for how many and from where.
    pub(super) fn narrow(&self, call: Call) -> Call {
        let call = [("key", &self.key), ("group", &self.group), ("from", &self.from), ("to", &self.to)]
            .into_iter()
            .fold(call, |call, (name, value)| with(call, name, value.as_ref()));
        let call =
            self.meta.iter().fold(call, |call, (name, value)| call.query(&format!("metadata.{name}"), value));
        match self.duplicated {
            Some(times) => call.query("duplicated", times),
            None => call,
        }
    }

    /// Prints page after page; how many jobs there were.
    pub(super) async fn list<const N: usize>(
        &self,
        remote: &Remote,
        call: &Call,
        json: bool,
        (head, row): Look<N>,
    ) -> Result<usize, Failure> {
        let call = self.narrow(call.clone());
        let (mut shown, mut cursor) = (0, self.cursor.clone());
        loop {
            let left =
                if self.all { PAGE_MAX } else { usize::try_from(self.limit).unwrap_or(PAGE_MAX) - shown };
            let page = with(call.clone(), "cursor", cursor.as_ref()).query("limit", left.min(PAGE_MAX));
            let reply = remote.call(&page).await?;
            let page: JobPage = remote.read(&reply)?;
            if json {
                print_reply(&reply)?;
            } else {
                print(&table(head, page.jobs.iter().map(row), shown == 0))?;
            }
            shown += page.jobs.len();
            cursor = page.next_cursor;
            if self.after(shown, cursor.as_deref(), json).is_break() {
                return Ok(shown);
            }
        }
    }

    /// Whether a page was the last one, and what is said then.
    fn after(&self, shown: usize, cursor: Option<&str>, json: bool) -> ControlFlow<()> {
        let enough = !self.all && shown >= usize::try_from(self.limit).unwrap_or(usize::MAX);
        match cursor {
            None if shown == 0 && !json => note("no jobs"),
            None => {}
            Some(_) if !enough => return ControlFlow::Continue(()),
            Some(cursor) if !json => note(&format!("more follow: add --all, or --cursor {cursor}")),
            Some(_) => {}
        }
        ControlFlow::Break(())
    }
}

/// How jobs look in a table: its head, and a job's line.
pub(super) type Look<const N: usize> = ([&'static str; N], fn(&Job) -> [String; N]);

/// A page as a table. Only the first one has a head.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>, first: bool) -> String {
    let tone = |column: usize, cell: &str| if column == 1 { of_status(cell) } else { Tone::Plain };
    let drawn = painted(head, rows, Paint::stdout(), tone);
    match drawn.split_once('\n') {
        Some((_, "")) => String::new(),
        Some((_, rest)) if !first => rest.to_owned(),
        _ => drawn,
    }
}

const HEAD: [&str; 6] = ["job", "status", "attempts", "published", "queue", "key"];

/// How wide names of queues and keys may be for a line that fits a terminal.
const NAME_WIDE: usize = 20;

fn row(job: &Job) -> [String; 6] {
    let name = |text: &str| clip(&printable(text), NAME_WIDE);
    [
        printable(&job.id),
        printable(&job.status),
        format!("{}/{}", job.attempts, job.max_attempts),
        moment(&job.created_at),
        name(&job.queue),
        job.idempotency_key.as_deref().map(name).unwrap_or_default(),
    ]
}
