//! Works on a store at full speed until somebody kills it; its history goes to standard output.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use semel_proof::clock::ScaledClock;
use semel_proof::recorder::Recorder;
use semel_proof::workload::{self, Ended, Options, Shared, block_on};
use semel_store::{Clock, Store, SystemClock};
use semel_store_embedded::{EmbeddedStore, Sabotage};

/// The exit code when the store takes no more writes: the fault that was injected has arrived.
const STORE_FAILED: u8 = 3;

/// Works on a store at full speed until it is killed.
#[derive(Debug, Parser)]
struct Args {
    /// The directory of the store.
    dir: PathBuf,
    /// Decides everything that is left to chance.
    #[arg(long)]
    seed: u64,
    /// The number of the first new job.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many threads work at once.
    #[arg(long, default_value_t = 3)]
    workers: u64,
    /// End after this many steps of each worker.
    #[arg(long)]
    steps: Option<u64>,
    /// A clock to share with other processes; the machine's if absent.
    #[arg(long)]
    clock: Option<ScaledClock>,
    /// Keys that gather before they are sealed into a run.
    #[arg(long)]
    run_keys: Option<usize>,
    /// Do not sync: a broken build, which the checker must catch.
    #[arg(long)]
    no_sync: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match work(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Ended::Store(error)) => {
            eprintln!("proof-child: {error}");
            ExitCode::from(STORE_FAILED)
        }
        Err(error) => {
            eprintln!("proof-child: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &Args) -> Result<(), Ended> {
    let clock: Arc<dyn Clock> = match args.clock {
        Some(clock) => Arc::new(clock),
        None => Arc::new(SystemClock::new()),
    };
    let defaults = semel_store_embedded::Options::default();
    let options = semel_store_embedded::Options {
        clock,
        run_keys: args.run_keys.unwrap_or(defaults.run_keys),
        sabotage: args.no_sync.then_some(Sabotage::NoSync),
        ..defaults
    };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&args.dir, options)?);
    let shared = block_on(Shared::prepare(store, Recorder::new(io::stdout()), args.first))?;
    let options = Options { seed: args.seed, workers: args.workers, first: args.first, steps: args.steps };
    workload::run(&Arc::new(shared), options)
}
