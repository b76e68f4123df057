//! `semel store`: looking after the directory of an embedded store.

mod check;
mod rebuild;
mod stats;
pub(super) mod watch;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{EXIT_CODES, Outcome};
use crate::failure::Failure;

/// Look after a store's directory
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Verify every record, the key index and the counts of a store that is not in use
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", check::EXAMPLES))]
    Check(Target),
    /// Throw the key index away and make it anew from the jobs
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", rebuild::EXAMPLES))]
    RebuildIndex(Target),
    /// Show sizes and counts; the store may be in use
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", stats::EXAMPLES))]
    Stats(Target),
}

/// A command about one directory.
#[derive(Debug, Args)]
struct Target {
    /// The directory of the store
    dir: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl StoreArgs {
    /// Does the task.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match self.task {
            Task::Check(target) => check::run(&target),
            Task::RebuildIndex(target) => rebuild::run(&target),
            Task::Stats(target) => stats::run(&target),
        }
    }
}
