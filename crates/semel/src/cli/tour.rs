//! `semel tour`.

use clap::Args;

use super::{EXIT_CODES, Outcome, print_json};
use crate::failure::Failure;
use crate::tour::{self, Voice};

const EXAMPLES: &str = "\
Examples:
  semel tour             read along
  semel tour --json      every call, answer and promise, for a program

It makes a store in a temporary directory, publishes, leases, settles and replays on it, kills a
child process of its own (SIGKILL) while it publishes, and judges every answer. Exit code 1 means
that a promise broke.";

/// Walk through the promises of Semel on a real store, in a few seconds
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct TourArgs {
    /// Print calls, answers and promises as JSON
    #[arg(long)]
    json: bool,
}

impl TourArgs {
    /// Takes the tour; a broken promise is a problem found.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let tour = tour::run(if self.json { Voice::Silent } else { Voice::Aloud })?;
        if self.json {
            print_json(&tour)?;
        }
        Ok(Outcome::of(tour.held))
    }
}
