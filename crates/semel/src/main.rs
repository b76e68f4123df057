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
use mimalloc::MiMalloc;

// A publish is some fifty small allocations that live for a millisecond and are freed by another thread: the system's
// allocator took a sixth more processor time for them (`semel bench http`, server CPU per 10,000 publishes).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
