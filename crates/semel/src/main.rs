//! The binary `semel`: the command line. Everything it does is in modules named after the command.

mod bench;
mod cli;
mod dev;
mod failure;
mod host;
mod kin;
mod logs;
mod opening;
mod progress;
mod serve;
mod signals;
mod text;
mod tour;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
