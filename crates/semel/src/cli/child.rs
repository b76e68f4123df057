//! `semel child`: what the tour and the benchmark start as processes of their own. Hidden: people have no use for it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::failure::Failure;
use crate::{bench, tour};

/// Child processes of the tour and the benchmark
#[derive(Debug, Args)]
pub(crate) struct ChildArgs {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Publishes until it is killed, and says what was acknowledged
    TourPublish { dir: PathBuf },
    /// Publishes the benchmark's jobs until it is killed
    BenchPublish { published: u64, dir: PathBuf },
    /// Serves for the benchmark until it is killed
    BenchServe {
        store: String,
        dir: PathBuf,
        /// The key that clients will come with; nodes of one store have one
        #[arg(long)]
        key: Option<String>,
    },
    /// Opens a store after a kill, and says how long that took
    BenchOpen { acknowledged: u64, dir: PathBuf },
}

impl ChildArgs {
    /// Plays the role.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match self.role {
            Role::TourPublish { dir } => tour::be_publisher(&dir)?,
            Role::BenchPublish { published, dir } => bench::child::be_publisher(&dir, published)?,
            Role::BenchServe { store, dir, key } => bench::http::be_server(&store, &dir, key)?,
            Role::BenchOpen { acknowledged, dir } => bench::child::be_opener(&dir, acknowledged)?,
        }
        Ok(Outcome::Good)
    }
}
