//! The binary `semel`: the command line. Everything it does is in modules named after the command.

mod bench;
mod cli;
mod failure;
mod kin;
mod opening;
mod progress;
mod text;
mod tour;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
