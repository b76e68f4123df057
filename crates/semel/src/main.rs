//! The binary `semel`: the command line. Everything it does is in modules named after the command.

mod bench;
mod cli;
mod dev;
mod failure;
mod host;
mod kin;
mod listen;
mod logs;
mod opening;
mod paint;
mod progress;
mod remote;
mod screen;
mod serve;
mod signals;
mod table;
mod text;
mod tour;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::Cli::read().run()
}
