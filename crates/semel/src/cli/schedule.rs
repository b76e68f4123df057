//! `semel schedule`: jobs that are published by the clock.

mod set;

use clap::{Args, Subcommand};
use semel_client::http::{Call, Reply};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Outcome, REMOTE_EXIT_CODES, note, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::moment;
use crate::remote::{Confirm, Remote, ServerArgs};
use crate::table::{clip, columns, pairs};
use crate::text::printable;

const EXAMPLES: &str = "\
A schedule publishes a job at each tick of a cron expression, under the key schedule:NAME:TICK: a
tick is published once, however many nodes there are.

Examples:
  semel schedule list
  semel schedule show report
  semel schedule set report '{\"kind\":\"daily\"}' --queue reports --cron '0 6 * * *' --zone Asia/Tokyo
  semel schedule set report --cron @hourly       change this, keep the rest
  semel schedule delete report --yes             jobs it has published stay";

/// List, show, set and delete schedules
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    task: Task,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the schedules and their next ticks
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    List,
    /// Show a schedule
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Show(Named),
    /// Make a schedule, or change it
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Set(set::SetArgs),
    /// Take a schedule away; jobs it has published stay
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct Named {
    /// The schedule
    name: String,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The schedule
    name: String,
    #[command(flatten)]
    confirm: Confirm,
}

/// A schedule.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schedule {
    name: String,
    queue: String,
    cron: String,
    zone: String,
    payload: Option<Box<RawValue>>,
    next_ticks: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    schedules: Vec<Schedule>,
}

impl ScheduleArgs {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let Self { task, server } = self;
        let json = server.json;
        match task {
            Task::List => server.talk(async |remote| list(remote, json).await),
            Task::Show(named) => {
                let call = Call::get(&["v1", "schedules", &named.name]);
                server.talk(async |remote| show(remote, &remote.call(&call).await?, json))
            }
            Task::Set(args) => server.talk(async |remote| show(remote, &args.set(remote).await?, json)),
            Task::Delete(args) => {
                let name = printable(&args.name);
                args.confirm.ask(&format!("deleting the schedule {name}"))?;
                server.talk(async |remote| {
                    remote.call(&Call::delete(&["v1", "schedules", &args.name])).await
                })?;
                note(&format!("{name} was deleted"));
                Ok(Outcome::Good)
            }
        }
    }
}

async fn list(remote: &Remote, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(&Call::get(&["v1", "schedules"])).await?;
    if json {
        print_reply(&reply)?;
        return Ok(Outcome::Good);
    }
    let list: List = remote.read(&reply)?;
    if list.schedules.is_empty() {
        note("no schedules; `semel schedule set` makes one");
        return Ok(Outcome::Good);
    }
    let rows = list.schedules.iter().map(|schedule| {
        let [name, queue, cron, zone] = [&schedule.name, &schedule.queue, &schedule.cron, &schedule.zone]
            .map(|text| clip(&printable(text), NAME_WIDE));
        [name, queue, cron, zone, schedule.next_ticks.first().map(|at| moment(at)).unwrap_or_default()]
    });
    print(&columns(["schedule", "queue", "cron", "zone", "next tick"], rows))?;
    Ok(Outcome::Good)
}

/// How wide a name may be for a line that fits a terminal.
const NAME_WIDE: usize = 22;

/// How much of a payload is shown; `--json` has all of it.
const PAYLOAD_SHOWN: usize = 300;

fn show(remote: &Remote, reply: &Reply, json: bool) -> Result<Outcome, Failure> {
    if json {
        print_reply(reply)?;
        return Ok(Outcome::Good);
    }
    let schedule: Schedule = remote.read(reply)?;
    let payload = schedule.payload.as_ref().map_or("null", |payload| payload.get());
    let ticks: Vec<_> = schedule.next_ticks.iter().map(|at| moment(at)).collect();
    let facts = pairs([
        ("queue", Some(printable(&schedule.queue))),
        ("cron", Some(printable(&format!("{} ({})", schedule.cron, schedule.zone)))),
        ("next ticks", Some(ticks.join(", "))),
        ("payload", Some(clip(&printable(payload), PAYLOAD_SHOWN))),
    ]);
    print(&format!("{}\n{facts}", printable(&schedule.name)))?;
    Ok(Outcome::Good)
}
