//! `semel store`: looking after the directory of an embedded store.

mod backup;
mod check;
mod rebuild;
mod restore;
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
    /// Copy a store as it is at one moment; the store may be in use
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", backup::EXAMPLES))]
    Backup(Copy),
    /// Make a store from a backup
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", restore::EXAMPLES))]
    Restore(Copy),
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

/// A command from one directory to another.
#[derive(Debug, Args)]
struct Copy {
    /// The directory to copy from
    from: PathBuf,
    /// The directory to make; it must be empty or absent
    to: PathBuf,
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
            Task::Backup(copy) => backup::run(&copy),
            Task::Restore(copy) => restore::run(&copy),
        }
    }
}
