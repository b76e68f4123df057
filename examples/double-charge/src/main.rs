//! A shop, a payment provider, and workers that are really killed: `make demo`.
//!
//! Five workers do the same job, each in its own act, and each act kills its workers at the same three moments. Two of the
//! workers are as people write them; they charge a card twice and lose a charge. Three use the ledger. The exit code is 0 if
//! the first two failed as they must and the others kept their promise, and 1 otherwise.
//!
//! Where to read: `handlers.rs` has the five workers, `acts.rs` what each act shows and promises, `play.rs` how one is
//! played. `provider.rs` and `stage.rs` are the world around them.

mod actor;
mod acts;
mod calling;
mod failure;
mod handlers;
mod play;
mod provider;
mod report;
mod shop;
mod stage;
mod telling;
mod word;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::acts::Act;
use crate::failure::Failure;
use crate::report::Report;
use crate::stage::Stage;
use crate::telling::Telling;

/// Kills workers in the middle of a charge, and counts what was charged.
#[derive(Debug, Parser)]
#[command(name = "double-charge")]
struct Arguments {
    /// Print what happened as JSON, at the end, instead of telling it.
    #[arg(long)]
    json: bool,
    /// Play only this act; may be given several times.
    #[arg(long = "act", value_name = "ACT")]
    acts: Vec<Act>,
    /// Let the provider of the intent forget its keys: what the ledger cannot do alone. The exit code is 1 then.
    #[arg(long)]
    forgetful: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// A worker of the demonstration. It starts those itself, and kills them.
    #[command(hide = true)]
    Worker(worker::Orders),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    let ended = match arguments.role.take() {
        Some(Role::Worker(orders)) => worker::work(orders).await.map(|()| true),
        None => demonstrate(&arguments).await,
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("double-charge: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the acts; says whether everything went as it must.
async fn demonstrate(arguments: &Arguments) -> Result<bool, Failure> {
    let telling = Telling::new(arguments.json);
    telling.prologue()?;
    let stage = Stage::open(arguments.forgetful).await?;
    let wanted = |act: &Act| arguments.acts.is_empty() || arguments.acts.contains(act);
    let mut acts = Vec::new();
    for act in Act::ALL.into_iter().filter(wanted) {
        acts.push(play::play(act, &stage, &telling).await?);
    }
    stage.close().await?;
    let report = Report::of(acts);
    telling.table(&report)?;
    if arguments.json {
        telling::line(&serde_json::to_string_pretty(&report)?)?;
    }
    Ok(report.held)
}
