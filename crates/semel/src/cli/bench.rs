//! `semel bench`.

mod ledger;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use self::ledger::LedgerBench;
use super::{EXIT_CODES, Outcome, print, print_json};
use crate::bench::{self, Plan};
use crate::failure::Failure;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  semel bench store                          the real thing: 10,000,000 keys, medians of 3
  semel bench store --quick                  does it work at all? 200,000 keys, one run, seconds
  semel bench store --out out/bench          also writes store.json and store.svg there
  semel bench store --dir /mnt/disk --json   on another disk, result as JSON
  semel bench store --enforce                exit code 1 if a figure is below what it must reach

The real thing takes some ten minutes and ten gigabytes. Ratios are taken in alternating slices of
one run, so a noisy machine disturbs both sides alike. The directory must be on a real disk: in
memory an fsync costs nothing.";

/// Measure Semel on this machine
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure the embedded store against the raw disk and the bars it must reach
    Store(StoreBench),
    /// Measure the server over HTTP against itself without a store, and the bars it must reach
    Http(HttpBench),
    /// Measure the ledger against the same work without it, and the bars it must reach
    Ledger(LedgerBench),
}

const HTTP_EXAMPLES: &str = "\
Examples:
  semel bench http                    the real thing, medians of 3, some minutes
  semel bench http --quick            does it work at all? one short run
  semel bench http --out out/bench    also writes http.json and http.svg there
  semel bench http --enforce          exit code 1 if a figure is below what it must reach
  semel bench http --store postgres   on a PostgreSQL cluster of its own, against hand-written SQL

The server runs as a process of its own on this machine, and so do its clients and workers: they
share the cores. Everything that is compared is measured right after each other.";

#[derive(Debug, Args)]
#[command(after_help = format!("{HTTP_EXAMPLES}\n\n{EXIT_CODES}"))]
struct HttpBench {
    /// Write http.json and http.svg into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What the server stores in: a directory, or a PostgreSQL cluster that is started for the occasion
    #[arg(long, value_enum, default_value_t = Backend::Embedded)]
    store: Backend,
    /// Keys present when the full store is measured, with --store postgres [default: 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    keys: Option<u64>,
    /// Where the stores are made, and removed afterwards [default: ./target or $TMPDIR]
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

/// What the measured server stores in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// A directory
    Embedded,
    /// PostgreSQL
    Postgres,
}

impl HttpBench {
    fn run(self) -> Result<Outcome, Failure> {
        match self.store {
            Backend::Embedded => self.on_embedded(),
            Backend::Postgres => self.on_postgres(),
        }
    }

    fn on_postgres(self) -> Result<Outcome, Failure> {
        use bench::http::postgres::{self, Plan};
        let mut plan = if self.quick { Plan::quick() } else { Plan::full() };
        plan.runs = self.runs.unwrap_or(plan.runs);
        plan.keys = self.keys.unwrap_or(plan.keys);
        let dir = self.dir.unwrap_or_else(bench::default_dir);
        let quick = if self.quick { " --quick" } else { "" };
        let command =
            format!("semel bench http --store postgres{quick} --runs {} --keys {}", plan.runs, plan.keys);
        let report = postgres::run(&plan, &dir, command, &mut Progress::new())?;
        show(&report, self.json, self.out.as_deref(), self.enforce)
    }

    fn on_embedded(self) -> Result<Outcome, Failure> {
        if self.keys.is_some() {
            return Err(Failure::Usage(
                "--keys goes with --store postgres; see also `semel bench store`".into(),
            ));
        }
        let mut plan = if self.quick { bench::http::Plan::quick() } else { bench::http::Plan::full() };
        plan.runs = self.runs.unwrap_or(plan.runs);
        let dir = self.dir.unwrap_or_else(bench::default_dir);
        let quick = if self.quick { " --quick" } else { "" };
        let command = format!("semel bench http{quick} --runs {} --dir {}", plan.runs, dir.display());
        let report = bench::http::run(&plan, &dir, command, &mut Progress::new())?;
        show(&report, self.json, self.out.as_deref(), self.enforce)
    }
}

/// Prints the report, saves it where that was asked for, and judges it.
fn show(report: &bench::Report, json: bool, out: Option<&Path>, enforce: bool) -> Result<Outcome, Failure> {
    if json {
        print_json(report)?;
    } else {
        print(&bench::render(report))?;
    }
    if let Some(out) = out {
        let saved = bench::save(report, out)?;
        if !json {
            print(&format!("  saved: {} and {}\n", saved[0].display(), saved[1].display()))?;
        }
    }
    Ok(Outcome::of(!enforce || report.below_must().next().is_none()))
}

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct StoreBench {
    /// Write store.json and store.svg into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where the stores are made, and removed afterwards [default: ./target or $TMPDIR]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keys and queued jobs present when the full store is measured [default: 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    keys: Option<u64>,
    /// Publishes per measure and run [default: 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    jobs: Option<u64>,
    /// How often everything is measured; the median counts [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// Smaller defaults: 200000 keys, 20000 publishes, 1 run
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a figure is below what it must reach
    #[arg(long)]
    enforce: bool,
}

impl BenchArgs {
    /// Runs the benchmark and shows what it measured.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        match self.what {
            What::Store(args) => args.run(),
            What::Http(args) => args.run(),
            What::Ledger(args) => args.run(),
        }
    }
}

impl StoreBench {
    fn run(self) -> Result<Outcome, Failure> {
        let report = bench::run(&self.plan(), &self.dir(), self.command(), &mut Progress::new())?;
        show(&report, self.json, self.out.as_deref(), self.enforce)
    }

    fn plan(&self) -> Plan {
        let default = if self.quick { Plan::quick() } else { Plan::full() };
        let (keys, jobs) = (self.keys.unwrap_or(default.keys), self.jobs.unwrap_or(default.jobs));
        Plan::of(keys, jobs, self.runs.unwrap_or(default.runs))
    }

    fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(bench::default_dir)
    }

    /// The command that runs the same plan again, whatever the defaults will be by then.
    fn command(&self) -> String {
        let plan = self.plan();
        let dir = self.dir();
        format!(
            "semel bench store --keys {} --jobs {} --runs {} --dir {}",
            plan.keys,
            plan.jobs,
            plan.runs,
            dir.display()
        )
    }
}
