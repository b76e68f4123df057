//! `semel dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Outcome, SERVER_EXIT_CODES};
use crate::dev::{self, Wish};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  semel dev                             in memory, on http://127.0.0.1:7477
  semel dev --data ./dev-data           jobs survive a restart
  semel dev --listen 127.0.0.1:0        on any free port; the address is printed

It prints an API key that is good for this run and lines to copy, and then every request and every
delivery with what it meant (on stderr). Unlike `semel serve` it makes queues when they are first
used, and webhooks may go to this machine.";

/// Run a server to try things on: in memory, with a key and examples to copy
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{SERVER_EXIT_CODES}"))]
pub(crate) struct DevArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7477")]
    listen: SocketAddr,
    /// Keep jobs in this directory instead of in memory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Show no requests and deliveries
    #[arg(long, short)]
    quiet: bool,
}

impl DevArgs {
    /// Serves until a signal ends it.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        dev::run(Wish { listen: self.listen, data: self.data, quiet: self.quiet }).map(|()| Outcome::Good)
    }
}
