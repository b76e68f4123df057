//! Carrying.

use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_client::http::Client;
use semel_outbox::relay::{Outbox, Relay, Tally};
use semel_server::config::{LogConfig, LogFormat, LogLevel};
use semel_server::stop::Stop;
use serde_json::json;

use super::super::{Outcome, print, print_json};
use crate::failure::Failure;
use crate::text::count;
use crate::{host, logs, signals};

/// From where, to where, and how.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    // Both are needed here, and neither by the tasks beside it, so it is not for clap to ask for them.
    /// The application's database
    #[arg(long, value_name = "URL", env = "SEMEL_RELAY_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// The server
    #[arg(long, value_name = "URL", env = "SEMEL_SERVER")]
    server: Option<String>,
    /// An API key with the scope publish
    #[arg(long, value_name = "KEY", env = "SEMEL_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Rows that are claimed at once
    #[arg(long, value_name = "ROWS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1000))]
    batch: u32,
    /// Rounds that go on at once
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=8))]
    lanes: u8,
    /// Milliseconds between looks for rows
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    poll: u64,
    /// Carry what is there, and end; exit code 1 if rows are left or refused
    #[arg(long)]
    once: bool,
    /// Print what was done as JSON, and log as JSON
    #[arg(long)]
    json: bool,
    /// How much to log: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true)]
    log_level: Level,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl RunArgs {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let (Some(database), Some(server)) = (&self.database, &self.server) else {
            return Err(Failure::Usage(
                "say from where to where: --database URL and --server URL; see semel relay --help".into(),
            ));
        };
        let client = self.client(server)?;
        logs::start(self.log());
        let stop = signals::listen()?;
        host::runtime()?.block_on(self.carry(database, &client, stop))
    }

    async fn carry(&self, database: &str, client: &Client, stop: Stop) -> Result<Outcome, Failure> {
        let outbox = Outbox::open(database).await?;
        let poll = Duration::from_millis(self.poll);
        let relay = Relay::new(&outbox, client).batch(self.batch).lanes(self.lanes.into()).poll(poll);
        if self.once {
            let tally = relay.drain().await?;
            return self.told(&outbox, tally, true).await;
        }
        // One look before it says that it is at work: a missing table is found now, and not by whoever waits for jobs.
        outbox.depth().await?;
        tracing::info!(server = self.server.as_deref(), "carrying");
        let tally = relay.run(async move { stop.stopped().await }).await;
        tracing::info!("stopped");
        self.told(&outbox, tally, false).await
    }

    fn client(&self, server: &str) -> Result<Client, Failure> {
        let builder = Client::builder(server);
        let builder = match &self.api_key {
            Some(key) => builder.api_key(key),
            None => builder,
        };
        builder.build().map_err(|error| Failure::Usage(format!("--server, --api-key: {error}")))
    }

    /// Says what was done and what is left. Only a relay that was to end by itself is judged by it.
    async fn told(&self, outbox: &Outbox, tally: Tally, judged: bool) -> Result<Outcome, Failure> {
        let depth = outbox.depth().await?;
        let Tally { carried, known, refused, .. } = tally;
        if self.json {
            let left = json!({ "waiting": depth.waiting, "dead": depth.dead });
            print_json(&json!({ "carried": carried, "known": known, "refused": refused, "left": left }))?;
        } else {
            let [carried, known, refused] = [carried, known, refused].map(count);
            let [waiting, dead] = [depth.waiting, depth.dead].map(count);
            print(&format!(
                "carried {carried} rows ({known} the server had already), {refused} were refused\n\
                 left: {waiting} waiting, {dead} dead\n"
            ))?;
        }
        Ok(Outcome::of(!judged || (depth.waiting == 0 && depth.dead == 0)))
    }

    fn log(&self) -> LogConfig {
        let level = match self.log_level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        };
        LogConfig { level, format: if self.json { LogFormat::Json } else { LogFormat::Text } }
    }
}
