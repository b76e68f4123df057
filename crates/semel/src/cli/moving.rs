//! `semel move`: from a directory into PostgreSQL.

mod tell;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use semel_store::transfer::Source;
use semel_store_embedded::export::Export;
use semel_store_postgres::import;

use super::store::watch::Watch;
use super::{EXIT_CODES, Outcome, print, print_json};
use crate::failure::Failure;
use crate::opening;
use tell::{Done, Planned};

const EXAMPLES: &str = "\
Everything moves: queues with their settings, secrets, pauses and holds; jobs of every state with
their histories, results and suppressed publishes; keys with their windows; schedules, API keys and
replay tasks. Ids stay the same. A job that a worker has waits again, and its old lease is void.

Stop the server first. The directory is left as it is. A move that was interrupted goes on when the
same command is run again; no server starts on the database before everything is there and both
sides have been read from end to end and found to be the same.

Examples:
  semel move --from /var/lib/semel --to postgres://semel@db/semel --dry-run
  semel move --from /var/lib/semel --to postgres://semel@db/semel
  semel move --from /var/lib/semel --to postgres://semel@db/semel --verify";

/// Move a store's directory into PostgreSQL, or go on with that, and compare both sides
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct MoveArgs {
    /// The directory of the store; no server may use it
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The address of the database, with no other store in it
    #[arg(long, value_name = "URL", env = "SEMEL_STORE", hide_env_values = true)]
    to: String,
    /// Read everything and say what would be moved; change nothing
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,
    /// Compare both sides once more after a move, before servers work on the database
    #[arg(long)]
    verify: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl MoveArgs {
    /// Moves, compares or plans.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let to = opening::database_name(&self.to)?;
        let source = Box::new(Export::open(&self.from).map_err(Failure::store(&self.from))?);
        if self.dry_run { self.plan(&to, source) } else { self.carry_out(&to, source) }
    }

    fn carry_out(&self, to: &str, source: Box<dyn Source>) -> Result<Outcome, Failure> {
        let (start, mut watch, runtime) = (Instant::now(), Watch::new(), opening::database_runtime()?);
        let mut see = |seen| watch.see(seen);
        let report = if self.verify {
            runtime.block_on(import::verify(&self.to, source, &mut see)).map(Some)
        } else {
            runtime.block_on(import::import(&self.to, source, &mut see))
        };
        let report = report.map_err(Failure::store(&self.from))?;
        watch.finish();
        let done = Done { from: &self.from, to, verify: self.verify, took: start.elapsed(), report };
        self.show(&done.json(), &done.text())?;
        Ok(Outcome::of(done.is_good()))
    }

    fn plan(&self, to: &str, source: Box<dyn Source>) -> Result<Outcome, Failure> {
        let (mut watch, runtime) = (Watch::new(), opening::database_runtime()?);
        let plan = runtime.block_on(import::plan(&self.to, source, &mut |seen| watch.see(seen)));
        let plan = plan.map_err(Failure::store(&self.from))?;
        watch.finish();
        let planned = Planned { from: &self.from, to, plan };
        self.show(&planned.json(), &planned.text())?;
        Ok(Outcome::Good)
    }

    fn show(&self, json: &serde_json::Value, text: &str) -> Result<(), Failure> {
        if self.json { print_json(json) } else { print(text) }
    }
}
