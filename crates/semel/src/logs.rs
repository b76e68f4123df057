//! The log of a server: on stderr, so that stdout is for what people asked to see.

use std::fmt;
use std::io::{self, IsTerminal};

use semel_server::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Starts logging. The libraries below say little of use and much of it: they are heard when they warn.
pub(crate) fn start(log: LogConfig) {
    let filter = EnvFilter::new(format!("{},h2=warn,hyper=warn,rustls=warn", log.level.name()));
    let terminal = io::stderr().is_terminal();
    let to_stderr = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    if is_for_people(log.format, terminal) {
        to_stderr.with_ansi(terminal).with_target(false).init();
    } else {
        to_stderr.json().flatten_event(true).init();
    }
}

/// Starts logging beside a journal, which shows what the server does already: what is left is warnings, and what this program
/// itself has to say. Times are as the journal has them.
pub(crate) fn start_beside_journal() {
    let filter = EnvFilter::new("warn,semel=info,semel_server=warn");
    let to_stderr = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    to_stderr.with_timer(WallClock).with_ansi(io::stderr().is_terminal()).with_target(false).init();
}

/// The time of day.
struct WallClock;

impl FormatTime for WallClock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{} ", jiff::Zoned::now().strftime("%H:%M:%S"))
    }
}

fn is_for_people(format: LogFormat, terminal: bool) -> bool {
    match format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_decides_unless_somebody_did() {
        let read = |format| [is_for_people(format, true), is_for_people(format, false)];
        assert_eq!(read(LogFormat::Auto), [true, false]);
        assert_eq!(read(LogFormat::Text), [true, true]);
        assert_eq!(read(LogFormat::Json), [false, false]);
    }
}
