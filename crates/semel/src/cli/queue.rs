//! `semel queue`: queues, their settings, and whether they deliver.

mod set;
mod settings;
mod view;

use clap::{Args, Subcommand};
use semel_client::http::{Call, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, REMOTE_EXIT_CODES, note, print, print_reply};
use crate::failure::Failure;
use crate::remote::wire::moment;
use crate::remote::{Confirm, Remote, ServerArgs, Span};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  semel queue list                                      every queue, and where its jobs stand
  semel queue show orders                               its settings, by the names that set takes
  semel queue set orders maxAttempts=5 window=7d        change these, keep the rest
  semel queue set mail --push https://app.internal/jobs have jobs posted there
  semel queue pause orders                              deliveries stop; publishes go on
  semel queue resume orders
  semel queue rotate-secret mail                        a new secret for the webhook's signatures
  semel queue delete orders --yes                       when it has no unfinished job";

const SET_EXAMPLES: &str = "\
Only what is named is changed; a queue that is not there is made. With --file all settings are those
of the file, and what it leaves out takes its default. Spans are seconds, or 30s, 5m, 72h, 7d; null
takes a setting away. Nothing is changed if anything is wrong. It takes the scopes read and manage.

Examples:
  semel queue set orders                                make it, with the default settings
  semel queue set orders requireKey=true keyPattern='order-[0-9]+' onCollision=reject
  semel queue set orders retry.base=2s retry.cap=10m maxAttempts=8 concurrency=20
  semel queue set orders 'rate={\"count\":50,\"per\":1}' groupConcurrency=1 rate.burst=10
  semel queue set mail --push http://127.0.0.1:3000/jobs delivery.timeout=30s
  semel queue show orders --json > orders.json && semel queue set orders --file orders.json

Settings: delivery.type (pull, push), delivery.leaseSeconds, delivery.url, delivery.mode (standard,
ack), delivery.timeout, delivery.ackTimeout, delivery.ackTimeoutAction, delivery.signature,
retry.strategy (exponential, fixed), retry.base, retry.factor, retry.cap, retry.jitter, maxAttempts,
concurrency, rate, groupConcurrency, deferScope, breaker, window, requireKey, keyPattern,
onCollision (flag, reject), collisionIgnore, onDead (keep, revive, release), retention.completed,
retention.dead, retention.archive, duplicates, payloadLimit, ledgerTtl";

/// List, show, change, pause and delete queues
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    task: Task,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the queues, and where their jobs stand
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    List,
    /// Show a queue and its settings
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Show(Named),
    /// Make a queue, or change settings of it
    #[command(after_help = format!("{SET_EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Set(set::SetArgs),
    /// Stop deliveries; publishes go on
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Pause(Named),
    /// Let deliveries go on
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Resume(Named),
    /// Make a new secret for the webhook; the one before goes on signing for a day
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    RotateSecret(RotateArgs),
    /// Take a queue away, with the jobs in it that have ended
    #[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct Named {
    /// The queue
    queue: String,
}

#[derive(Debug, Args)]
struct RotateArgs {
    /// The queue
    queue: String,
    /// How long the secret before goes on signing (a day)
    #[arg(long, value_name = "SPAN")]
    overlap: Option<Span>,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The queue
    queue: String,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Deserialize)]
struct List {
    queues: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSecret {
    secret: String,
    previous_expires_at: Option<String>,
}

impl QueueArgs {
    /// Does what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let Self { task, server } = self;
        let json = server.json;
        match task {
            Task::List => server.talk(async |remote| list(remote, json).await),
            Task::Show(named) => {
                let call = Call::get(&["v1", "queues", &named.queue]);
                server.talk(async |remote| show(remote, &remote.call(&call).await?, json))
            }
            Task::Set(args) => server.talk(async |remote| args.set(remote, json).await),
            Task::Pause(named) => server.talk(async |remote| gate(remote, &named.queue, "pause", json).await),
            Task::Resume(named) => {
                server.talk(async |remote| gate(remote, &named.queue, "resume", json).await)
            }
            Task::RotateSecret(args) => server.talk(async |remote| rotate(remote, &args, json).await),
            Task::Delete(args) => {
                let queue = printable(&args.queue);
                args.confirm.ask(&format!("deleting {queue}, with its settings, secrets and ended jobs,"))?;
                server.talk(async |remote| delete(remote, &args.queue).await)
            }
        }
    }
}

async fn list(remote: &Remote, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(&Call::get(&["v1", "queues"])).await?;
    if json {
        print_reply(&reply)?;
        return Ok(Outcome::Good);
    }
    let list: List = remote.read(&reply)?;
    if list.queues.is_empty() {
        note("no queues; `semel queue set NAME` makes one");
        return Ok(Outcome::Good);
    }
    print(&view::table(remote, &list.queues)?)?;
    Ok(Outcome::Good)
}

fn show(remote: &Remote, reply: &Reply, json: bool) -> Result<Outcome, Failure> {
    if json {
        print_reply(reply)?;
    } else {
        print(&view::whole(remote, &remote.read(reply)?)?)?;
    }
    Ok(Outcome::Good)
}

async fn gate(remote: &Remote, queue: &str, verb: &str, json: bool) -> Result<Outcome, Failure> {
    let reply = remote.call(&Call::post(&["v1", "queues", queue, verb])).await?;
    let words = match verb {
        "pause" => "is paused: nothing is delivered until it is resumed; publishes go on",
        _ => "delivers",
    };
    if json {
        print_reply(&reply)?;
    } else {
        print(&format!("{} {words}\n", printable(queue)))?;
    }
    Ok(Outcome::Good)
}

/// The secret is all that goes to stdout, where it can be caught; the rest is for whoever looks on.
async fn rotate(remote: &Remote, args: &RotateArgs, json: bool) -> Result<Outcome, Failure> {
    let call = Call::post(&["v1", "queues", &args.queue, "secrets", "rotate"]).once();
    let call = match args.overlap {
        Some(Span(overlap)) => call.json(json!({ "overlap": overlap.as_secs_f64() }).to_string()),
        None => call,
    };
    let reply = remote.call(&call).await?;
    if json {
        print_reply(&reply)?;
        return Ok(Outcome::Good);
    }
    let made: NewSecret = remote.read(&reply)?;
    note(&match made.previous_expires_at {
        Some(at) => {
            format!("The new secret, shown this once; the one before goes on signing until {}:", moment(&at))
        }
        None => "The secret, shown this once:".to_owned(),
    });
    print(&format!("{}\n", printable(&made.secret)))?;
    Ok(Outcome::Good)
}

async fn delete(remote: &Remote, queue: &str) -> Result<Outcome, Failure> {
    remote.call(&Call::delete(&["v1", "queues", queue])).await?;
    note(&format!("{} was deleted", printable(queue)));
    Ok(Outcome::Good)
}
