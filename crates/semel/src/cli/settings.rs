//! The settings of a server on the command line: what `serve` starts with and `config check` judges.

use std::env;
use std::path::Path;

use clap::Args;
use semel_server::config::Sources;

use crate::failure::Failure;

/// Settings that have a flag of their own, and `--set` for all of them.
#[derive(Debug, Args)]
pub(super) struct SettingArgs {
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
    /// auto (text on a terminal, json elsewhere), text or json [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any setting by its key; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl SettingArgs {
    /// Everything that a configuration is made of.
    pub(super) fn sources<'a>(&self, file: Option<&'a Path>) -> Result<Sources<'a>, Failure> {
        Ok(Sources { file, variables: variables()?, flags: self.flags()? })
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

/// The variables of the environment that may be ours. One that cannot be read is not passed over: it was set for a reason.
fn variables() -> Result<Vec<(String, String)>, Failure> {
    let ours = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    ours.filter(|(name, _)| name.starts_with("SEMEL_") || name.starts_with("OTEL_EXPORTER_OTLP_"))
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => {
                Err(Failure::Usage(format!("the variable {name} is not UTF-8: set it anew, or unset it")))
            }
        })
        .collect()
}
