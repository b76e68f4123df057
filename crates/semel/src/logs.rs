//! The log of a server: on stderr, so that stdout is for what people asked to see.

use std::io::{self, IsTerminal};

use semel_server::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

/// Starts logging. The libraries below say little of use and much of it: they are heard when they warn.
pub(crate) fn start(log: LogConfig) {
    let filter = EnvFilter::new(format!("{},h2=warn,hyper=warn,rustls=warn", log.level.name()));
    let to_stderr = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match log.format {
        LogFormat::Text => to_stderr.with_ansi(io::stderr().is_terminal()).with_target(false).init(),
        LogFormat::Json => to_stderr.json().flatten_event(true).init(),
    }
}
