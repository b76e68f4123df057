//! `semel serve`.

use std::path::PathBuf;

use clap::Args;
use semel_server::config::Config;
use semel_server::credentials;

use super::settings::SettingArgs;
use super::{Outcome, SERVER_EXIT_CODES, print};
use crate::failure::Failure;
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  semel serve --data /var/lib/semel             for programs on this machine
  semel serve --store postgres://semel@db/semel one of many nodes over one database
  semel serve --new-key                         make an API key
  SEMEL_ADMIN_KEY=sml_... semel serve --listen 0.0.0.0:7477 --tls-cert c.pem --tls-key k.pem
  semel config print > semel.toml               every setting, explained
  semel serve --config semel.toml --set limits.body=2MiB

Settings come from the file, then from variables (limits.body is SEMEL_LIMITS_BODY), then from the
command line; the later wins. `semel config check` shows what comes of it. Without any API key the
server listens on loopback only.

SIGTERM or Ctrl-C: nothing new is accepted, what is under way finishes or is put back, within
shutdown.grace. The log is on stderr: for people on a terminal, as JSON elsewhere.";

/// Run the server
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{SERVER_EXIT_CODES}"))]
pub(crate) struct ServeArgs {
    /// Read settings from this file
    #[arg(long, value_name = "FILE", env = "SEMEL_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
    /// Make an API key and print it
    #[arg(long, exclusive = true)]
    new_key: bool,
}

impl ServeArgs {
    /// Serves until a signal ends it, or prints what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        if self.new_key {
            print(&format!("{}\n", credentials::mint().expose()))?;
        } else {
            let sources = self.settings.sources(self.config.as_deref())?;
            serve::run(Config::load(&sources)?)?;
        }
        Ok(Outcome::Good)
    }
}
