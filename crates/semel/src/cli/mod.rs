//! The command line: one file per group of commands. Here are their names, and what their exit codes mean.

mod bench;
mod child;
mod dev;
mod doctor;
mod migrate;
mod moving;
mod nodes;
mod relay;
mod serve;
mod store;
mod tour;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
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

/// The same for commands that run until they are told to stop.
const SERVER_EXIT_CODES: &str = "\
Exit codes:
  0    stopped in order, by SIGTERM or SIGINT (Ctrl-C)
  2    wrong usage, or the server could not start or end in order (the reason is on stderr)
  130  ended at once by a second SIGINT; what was under way is delivered again
  143  the same, by a second SIGTERM";

const EXAMPLES: &str = "\
Start here:
  semel dev                             a server to try things on, with curl lines to copy
  semel serve --data /var/lib/semel     the real thing
  semel serve --store postgres://...    the same as one of many nodes over one database
  semel tour                            the promises, shown on a real store in a few seconds
  semel store check /var/lib/semel      is everything in this directory as it should be?
  semel bench store --quick             what the store does on this machine";

/// Semel: a job queue. Jobs are delivered at least once; their effects happen once.
#[derive(Debug, Parser)]
#[command(name = "semel", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
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
    /// Walk through the promises on a real store in a temporary directory
    Tour(tour::TourArgs),
    /// Look after a store's directory: check, stats, backup, restore, rebuild-index
    Store(store::StoreArgs),
    /// Bring the schema of a database up to date, or print what that would take
    Migrate(migrate::MigrateArgs),
    /// List the nodes that share a database
    Nodes(nodes::NodesArgs),
    /// Examine the database under a store: sizes, bloat, settings, and what to do
    Doctor(doctor::DoctorArgs),
    /// Move a store's directory into PostgreSQL, or go on with that, and compare both sides
    Move(moving::MoveArgs),
    /// Carry the outbox of an application to the server
    Relay(relay::RelayArgs),
    /// Measure the store against the bars it must reach
    Bench(bench::BenchArgs),
    /// Child processes of the tour and the benchmark; not for people
    #[command(hide = true)]
    Child(child::ChildArgs),
}

impl Cli {
    /// Runs the command and says how it went.
    pub(crate) fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Dev(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Tour(args) => args.run(),
            Command::Store(args) => args.run(),
            Command::Migrate(args) => args.run(),
            Command::Nodes(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Move(args) => args.run(),
            Command::Relay(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Child(args) => args.run(),
        };
        match outcome {
            Ok(Outcome::Good) => ExitCode::SUCCESS,
            Ok(Outcome::Problems) => ExitCode::from(1),
            Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
            Err(failure) => {
                // When stderr is gone too, the exit code is all that is left to say it with.
                writeln!(io::stderr().lock(), "semel: {failure}").unwrap_or_default();
                ExitCode::from(2)
            }
        }
    }
}

/// Prints a result.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::io("print"))
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
