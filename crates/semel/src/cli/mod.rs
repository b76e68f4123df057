//! The command line: one file per group of commands. Here are their names, and what their exit codes mean.

mod api_key;
mod backup;
mod bench;
mod child;
mod completions;
mod config;
mod dead;
mod dedupe;
mod dev;
mod doctor;
mod groups;
mod job;
mod jobs;
mod key;
mod listen;
mod man;
mod migrate;
mod moving;
mod nodes;
mod publish;
mod queue;
mod relay;
mod replay;
mod schedule;
mod serve;
mod settings;
mod store;
mod tail;
mod tour;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use semel_client::http::Reply;
use serde::Serialize;

use crate::failure::Failure;

/// What a command found. Both are results; what keeps a command from its work is a [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Good,
    /// Problems were found; they have been shown.
    Problems,
}

impl Outcome {
    fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Problems }
    }
}

/// Told on every help page, because scripts depend on it.
const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  problems were found (they are listed)
  2  wrong usage, or the work could not be done (the reason is on stderr)";

/// The same for commands that talk to a server.
const REMOTE_EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  problems were found (they are listed)
  2  wrong usage, or the work could not be done here (the reason is on stderr)
  3  the server was not reached, is too busy or is shutting down: try again
  4  the API key is missing, unknown or not allowed to do this
  5  there is no such job, key, queue, dead letter or schedule
  6  the server refused: its problem is on stderr";

/// What those of them add that run until they are told to stop.
const ENDED_AT_ONCE: &str = "  130, 143  ended at once by a second SIGINT or SIGTERM";

/// The same for commands that run until they are told to stop.
const SERVER_EXIT_CODES: &str = "\
Exit codes:
  0    stopped in order, by SIGTERM or SIGINT (Ctrl-C)
  2    wrong usage, or the server could not start or end in order (the reason is on stderr)
  130  ended at once by a second SIGINT; what was under way is delivered again
  143  the same, by a second SIGTERM";

const EXAMPLES: &str = "\
Examples:
  semel dev                             a server to try things on, with lines to copy
  semel serve --data /var/lib/semel     the real thing
  semel serve --store postgres://...    the same as one of many nodes over one database
  semel help backup                     what a command does, with examples

Every command that prints results takes --json. Commands that talk to a server find it by --server
or SEMEL_SERVER, and use the key in SEMEL_API_KEY.";

/// Semel: a job queue. Jobs are delivered at least once; their effects happen once.
#[derive(Debug, Parser)]
#[command(name = "semel", version, max_term_width = 100, after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server to try things on: in memory, with a key and examples to copy
    Dev(dev::DevArgs),
    /// Run the server
    Serve(serve::ServeArgs),
    /// Show all settings, or those that a server would use
    Config(config::ConfigArgs),
    /// Walk through the promises on a real store in a temporary directory
    Tour(tour::TourArgs),
    /// Copy a store as it is at one moment; it may be in use
    Backup(backup::BackupArgs),
    /// Make a store from a backup
    Restore(backup::RestoreArgs),
    /// Look after a store's directory: check, stats, rebuild-index
    Store(store::StoreArgs),
    /// Bring the schema of a database up to date, or print what that would take
    Migrate(migrate::MigrateArgs),
    /// List the nodes that share a database
    Nodes(nodes::NodesArgs),
    /// Ask a server what should be looked at, or examine the database under a store
    Doctor(doctor::DoctorArgs),
    /// Say what a key or a window would have suppressed, before it is enforced
    Dedupe(dedupe::DedupeArgs),
    /// Move a store's directory into PostgreSQL, or go on with that, and compare both sides
    Move(moving::MoveArgs),
    /// Publish a job, or a file of them
    Publish(publish::PublishArgs),
    /// Show a job: state, deliveries, result; or cancel it
    Job(job::JobArgs),
    /// List jobs, newest first
    Jobs(jobs::JobsArgs),
    /// Show everything that happened under a key, or release it
    Key(key::KeyArgs),
    /// List, show, change, pause and delete queues
    Queue(queue::QueueArgs),
    /// List, group and purge dead letters
    Dead(dead::DeadArgs),
    /// Give dead letters another life: some, those of a queue, or all
    Replay(Box<replay::ReplayArgs>),
    /// List, show, set and delete schedules
    Schedule(schedule::ScheduleArgs),
    /// Make, list, rotate and delete API keys
    ApiKey(api_key::ApiKeyArgs),
    /// Show events as they happen
    Tail(tail::TailArgs),
    /// Pull jobs here and push them to a local URL: webhooks without a public address
    Listen(listen::ListenArgs),
    /// Carry the outbox of an application to the server
    Relay(relay::RelayArgs),
    /// Measure the store against the bars it must reach
    Bench(bench::BenchArgs),
    /// Print what a shell needs to complete commands and flags
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write those of all commands
    Man(man::ManArgs),
    /// Child processes of the tour and the benchmark; not for people
    #[command(hide = true)]
    Child(child::ChildArgs),
}

impl Cli {
    /// What was asked for. Wrong usage is told here, and ends the process.
    pub(crate) fn read() -> Self {
        let matches = groups::command().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command and says how it went.
    pub(crate) fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Dev(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Config(args) => args.run(),
            Command::Tour(args) => args.run(),
            Command::Backup(args) => args.run(),
            Command::Restore(args) => args.run(),
            Command::Store(args) => args.run(),
            Command::Migrate(args) => args.run(),
            Command::Nodes(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Dedupe(args) => args.run(),
            Command::Move(args) => args.run(),
            Command::Publish(args) => args.run(),
            Command::Job(args) => args.run(),
            Command::Jobs(args) => args.run(),
            Command::Key(args) => args.run(),
            Command::Queue(args) => args.run(),
            Command::Dead(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Schedule(args) => args.run(),
            Command::ApiKey(args) => args.run(),
            Command::Tail(args) => args.run(),
            Command::Listen(args) => args.run(),
            Command::Relay(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Child(args) => args.run(),
        };
        match outcome {
            Ok(Outcome::Good) => ExitCode::SUCCESS,
            Ok(Outcome::Problems) => ExitCode::from(1),
            Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
            Err(failure) => {
                // When stderr is gone too, the exit code is all that is left to say it with.
                writeln!(io::stderr().lock(), "semel: {failure}").unwrap_or_default();
                ExitCode::from(failure.exit_code())
            }
        }
    }
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::io("print"))
}

/// Prints the server's JSON as it came, so that what holds for the API holds for scripts.
fn print_reply(reply: &Reply) -> Result<(), Failure> {
    print(&format!("{}\n", reply.text()))
}

/// Says something to whoever looks on, beside the result. When stderr is gone there is nobody to read it.
fn note(line: &str) {
    writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
}

/// Does something for each of these. One that fails keeps the others from nothing; the only one fails for itself.
async fn one_by_one(
    ids: &[String],
    act: impl AsyncFn(&str) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let mut failed = Vec::new();
    for id in ids {
        if let Err(failure) = act(id).await {
            failed.push(failure);
        }
    }
    if ids.len() == 1 && failed.len() == 1 {
        return Err(failed.remove(0));
    }
    failed.iter().for_each(|failure| note(&failure.to_string()));
    Ok(Outcome::of(failed.is_empty()))
}

/// Prints a result as JSON.
fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::Io { what: "write JSON".into(), source: e.into() })?;
    print(&(text + "\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_its_exit_code_means() {
        let mut cli = Cli::command();
        cli.build();
        let visible = |c: &&clap::Command| !c.is_hide_set() && c.get_name() != "help";
        for group in cli.get_subcommands().filter(visible) {
            let leaves: Vec<_> = group.get_subcommands().filter(visible).collect();
            for command in if leaves.is_empty() { vec![group] } else { leaves } {
                let help = command.clone().render_long_help().to_string();
                assert!(
                    help.contains("Exit codes:") && help.contains("Example"),
                    "{}: {help}",
                    command.get_name()
                );
            }
        }
    }
}
