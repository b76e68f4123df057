//! `semel bench ledger`.

use std::path::PathBuf;

use clap::Args;

use super::super::{EXIT_CODES, Outcome};
use super::show;
use crate::bench::{
    self,
    ledger::{self, Plan},
};
use crate::failure::Failure;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  semel bench ledger                    the real thing, medians of 3, some ten minutes
  semel bench ledger --quick            does it work at all? one short run
  semel bench ledger --out out/bench    also writes ledger.json and ledger.svg there
  semel bench ledger --rows 100000      prune fewer expired rows
  semel bench ledger --enforce          exit code 1 if a figure is below what it must reach

PostgreSQL and Redis are started for the occasion, and removed. They, the workers and the server
share the cores. What is compared is measured in slices that take turns.";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct LedgerBench {
    /// Write ledger.json and ledger.svg into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Expired rows that are pruned while others claim [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    rows: Option<u64>,
    /// Where the relay's server stores for a while [default: ./target or $TMPDIR]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How often everything is measured; the median counts [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// Smaller sizes, 1 run
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a figure is below what it must reach
    #[arg(long)]
    enforce: bool,
}

impl LedgerBench {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let mut plan = if self.quick { Plan::quick() } else { Plan::full() };
        plan.runs = self.runs.unwrap_or(plan.runs);
        plan.rows = self.rows.unwrap_or(plan.rows);
        let dir = self.dir.unwrap_or_else(bench::default_dir);
        let quick = if self.quick { " --quick" } else { "" };
        let command = format!(
            "semel bench ledger{quick} --runs {} --rows {} --dir {}",
            plan.runs,
            plan.rows,
            dir.display()
        );
        let report = ledger::run(&plan, &dir, command, &mut Progress::new())?;
        show(&report, self.json, self.out.as_deref(), self.enforce)
    }
}
