//! `semel doctor`: what should be looked at in a running server, or in the database under a store.

mod database;
mod findings;

use clap::Args;

use super::{Outcome, REMOTE_EXIT_CODES};
use crate::failure::Failure;
use crate::remote::ServerArgs;

const EXAMPLES: &str = "\
Asks a server what it noticed: the window proof of every queue, keys that do not work as keys,
leases and time-outs that are too short, retry storms, queues in which nothing moves, and how its
store fares. Each finding says what it means and which setting to change. With many nodes, each
knows what went through itself.

With --store it examines the database under a store instead, without a server: sizes, dead rows,
settings. A directory is verified by `semel store check`. Nothing is changed.

Examples:
  semel doctor                                     everything, the worst first
  semel doctor --queue orders                      only one queue
  semel doctor --json | jq '.findings[].code'      the same, for a program
  semel doctor --store postgres://semel@db/semel   the database under a store

Exit code 1 says that there are warnings or worse.";

/// Ask a server what should be looked at, or examine the database under a store
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{REMOTE_EXIT_CODES}"))]
pub(crate) struct DoctorArgs {
    /// Only what is about this queue
    #[arg(long, value_name = "QUEUE", conflicts_with = "store")]
    queue: Option<String>,
    // Not from SEMEL_STORE: on a machine that has it set, the server is what is asked about all the same.
    /// Examine this database instead of a server
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

impl DoctorArgs {
    /// Asks or examines.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match &self.store {
            Some(url) => database::run(url, self.server.json),
            None => findings::run(&self.server, self.queue.as_deref()),
        }
    }
}
