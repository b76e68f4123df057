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

use mimalloc::MiMalloc;

// A publish is some fifty small allocations that live for a millisecond and are freed by another thread: the system's
// allocator took a fifth more processor time for them (`semel bench http`, server CPU per 10,000 publishes).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::Cli::read().run()
}
