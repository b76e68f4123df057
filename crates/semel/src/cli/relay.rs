//! `semel relay`: carries the outbox of an application to the server.

mod dead;
mod run;
mod schema;

use clap::{Args, Subcommand};

use super::{EXIT_CODES, Outcome};
use crate::failure::Failure;
use run::RunArgs;

const EXAMPLES: &str = "\
An application that publishes in its own transaction inserts into the table semel_outbox; this
carries the rows to the server. A row goes when the server has its job. Every try of a row has the
same key, so a relay may be killed at any moment: nothing is lost, and nothing is published twice.
Rows of one group stay in order. Run as many relays as you like on PostgreSQL and MySQL; on SQLite
they take turns. Databases are postgres://, mysql://, mariadb:// and sqlite:PATH.

Examples:
  semel relay schema --database postgres://shop@db/shop --apply   make the table
  SEMEL_API_KEY=sml_... semel relay --database postgres://shop@db/shop --server https://semel:7477
  semel relay --database sqlite:shop.db --server http://127.0.0.1:7477 --once
  semel relay dead --database mysql://shop@db/shop        what the server refused, and why
  semel relay retry --database mysql://shop@db/shop 17 18 try these again

The first Ctrl-C or SIGTERM lets it finish what it has claimed, which takes seconds at most.";

const TASKS: &str = "Examples:
  semel relay dead --database postgres://shop@db/shop --json
  semel relay retry --database postgres://shop@db/shop --all
  semel relay discard --database postgres://shop@db/shop 17";

/// Carry the outbox of an application to the server
#[derive(Debug, Args)]
#[command(
    after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"),
    args_conflicts_with_subcommands = true
)]
pub(crate) struct RelayArgs {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the rows that the server refused, and why
    #[command(after_help = format!("{TASKS}\n\n{EXIT_CODES}"))]
    Dead(dead::ListArgs),
    /// Have refused rows tried again
    #[command(after_help = format!("{TASKS}\n\n{EXIT_CODES}"))]
    Retry(dead::SomeArgs),
    /// Delete refused rows; they will never be published
    #[command(after_help = format!("{TASKS}\n\n{EXIT_CODES}"))]
    Discard(dead::SomeArgs),
    /// Print the SQL that makes the table, or run it
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", schema::EXAMPLES))]
    Schema(schema::SchemaArgs),
}

/// The database of the application.
#[derive(Debug, Clone, Args)]
struct Database {
    /// The application's database
    #[arg(long = "database", value_name = "URL", env = "SEMEL_RELAY_DATABASE", hide_env_values = true)]
    url: String,
}

impl RelayArgs {
    /// Carries rows, or does what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match self.task {
            Some(Task::Dead(args)) => args.run(),
            Some(Task::Retry(args)) => args.retry(),
            Some(Task::Discard(args)) => args.discard(),
            Some(Task::Schema(args)) => args.run(),
            None => self.run.run(),
        }
    }
}
