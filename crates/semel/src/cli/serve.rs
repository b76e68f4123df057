//! `semel serve`.

use std::path::PathBuf;

use clap::Args;
use semel_server::config::{Config, DEFAULT_FILE, Sources};
use semel_server::credentials;

use super::{Outcome, SERVER_EXIT_CODES, print};
use crate::failure::Failure;
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  semel serve --data /var/lib/semel             for programs on this machine
  semel serve --store postgres://semel@db/semel one of many nodes over one database
  semel serve --new-key                         make an API key
  SEMEL_ADMIN_KEY=sml_... semel serve --listen 0.0.0.0:7477 --tls-cert c.pem --tls-key k.pem
  semel serve --print-config > semel.toml       every setting, explained
  semel serve --config semel.toml --set limits.body=2MiB

Settings come from the file, then from variables (limits.body is SEMEL_LIMITS_BODY), then from the
command line; the later wins. Without any API key the server listens on loopback only.

SIGTERM or Ctrl-C: nothing new is accepted, what is under way finishes or is put back, within
shutdown.grace. The log is on stderr.";

/// Run the server
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{SERVER_EXIT_CODES}"))]
pub(crate) struct ServeArgs {
    /// Read settings from this file
    #[arg(long, value_name = "FILE", env = "SEMEL_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:7477]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The directory of the store [default: ./semel-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// A PostgreSQL database, for many nodes
    #[arg(long, value_name = "URL", env = "SEMEL_STORE", hide_env_values = true, conflicts_with = "data")]
    store: Option<String>,
    /// The certificate chain, as a PEM file
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Its private key, as a PEM file
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any setting by its key; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print all settings with their defaults, as a file to begin with
    #[arg(long, exclusive = true)]
    print_config: bool,
    /// Make an API key and print it
    #[arg(long, exclusive = true)]
    new_key: bool,
}

impl ServeArgs {
    /// Serves until a signal ends it, or prints what was asked for.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        if self.print_config {
            print(DEFAULT_FILE)?;
        } else if self.new_key {
            print(&format!("{}\n", credentials::mint().expose()))?;
        } else {
            serve::run(self.config()?)?;
        }
        Ok(Outcome::Good)
    }

    fn config(&self) -> Result<Config, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        let sources = Sources { file: self.config.as_deref(), variable: &variable, flags: self.flags()? };
        Ok(Config::load(&sources)?)
    }

    /// What was given on the command line: the flag as written, the key of its setting, the value.
    fn flags(&self) -> Result<Vec<(String, String, String)>, Failure> {
        let mut flags = Vec::new();
        for set in &self.set {
            let (key, value) = set.split_once('=').ok_or_else(|| {
                Failure::Usage(format!("--set {set}: write it as KEY=VALUE, such as limits.body=2MiB"))
            })?;
            flags.push((format!("--set {key}"), key.to_owned(), value.to_owned()));
        }
        for (flag, key, value) in [
            ("--listen", "listen", &self.listen),
            ("--data", "data", &self.data),
            ("--store", "store.url", &self.store),
            ("--tls-cert", "tls.cert", &self.tls_cert),
            ("--tls-key", "tls.key", &self.tls_key),
            ("--log-level", "log.level", &self.log_level),
            ("--log-format", "log.format", &self.log_format),
        ] {
            flags.extend(value.iter().map(|value| (flag.to_owned(), key.to_owned(), value.clone())));
        }
        Ok(flags)
    }
}
