//! The configuration: a file, variables and the command line, in order of increasing precedence.
//!
//! The default file (`config/config.default.toml`) is compiled in and documents every setting. A configuration is
//! judged as a whole: all that is wrong with it is told at once.

mod apply;
mod check;
mod explain;
mod load;
mod nearest;
mod settings;
mod telemetry;
mod units;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use semel_store::group_commit;

use crate::credentials::Secret;
use crate::net;

pub use self::explain::Effective;
pub use self::load::{ConfigError, Sources};
pub use self::telemetry::OtlpConfig;

/// The default file, with every setting explained.
pub const DEFAULT_FILE: &str = include_str!("config/config.default.toml");

/// The variable of the key that exists before any other: with it, the first API keys are made.
pub const ADMIN_KEY_VARIABLE: &str = "SEMEL_ADMIN_KEY";

/// The port of the server.
const PORT: u16 = 7477;

/// How a server is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where the API listens.
    pub listen: SocketAddr,
    /// The directory of the store, if it is an embedded one.
    pub data: PathBuf,
    /// The database of the store, if it is one that many nodes share.
    pub store: StoreConfig,
    /// What this node is called.
    pub node: NodeConfig,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// The certificate.
    pub tls: TlsConfig,
    /// The log.
    pub log: LogConfig,
    /// Spans.
    pub telemetry: TelemetryConfig,
    /// What clients may cost.
    pub limits: LimitsConfig,
    /// Webhooks.
    pub delivery: DeliveryConfig,
    /// Dead letters that are dropped.
    pub archive: ArchiveConfig,
    /// How the server ends.
    pub shutdown: ShutdownConfig,
    /// The API key that exists before any other.
    pub bootstrap_key: Option<Secret>,
}

/// A store that many nodes share: a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Where it is; with a password, perhaps. Without it the store is an embedded one.
    pub url: Option<Secret>,
    /// Another way to it for the connection that listens.
    pub listen_url: Option<Secret>,
    /// Whether the schema is brought up to date at start.
    pub migrate: bool,
    /// Most connections at once.
    pub connections: usize,
    /// Whether statements are prepared.
    pub prepare: bool,
}

/// What this node is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// By people; the machine's name if absent.
    pub name: Option<String>,
    /// By whoever wants to reach it; the address it listens on if absent.
    pub address: Option<String>,
}

/// The certificate chain and its key: both or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The file of the chain.
    pub cert: Option<PathBuf>,
    /// The file of the key.
    pub key: Option<PathBuf>,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// How much.
    pub level: LogLevel,
    /// For whom.
    pub format: LogFormat,
}

/// What is told to others while it happens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TelemetryConfig {
    /// Spans, over OTLP.
    pub otlp: OtlpConfig,
}

/// What clients may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Connections at once; `None` goes by the limit on open files.
    pub connections: Option<usize>,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of the body of a batch.
    pub batch_body: usize,
    /// Commands that may wait to be stored.
    pub waiting_commands: usize,
    /// Bytes of a head.
    pub header: usize,
    /// How long a head may take.
    pub header_timeout: Duration,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long a connection may be kept without a request.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// Requests at once on one HTTP/2 connection.
    pub http2_streams: u32,
}

/// Webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// Networks that may be called although they are private.
    pub allow: Vec<IpNet>,
    /// Hosts that may be called although their addresses are private.
    pub allow_hosts: Vec<String>,
    /// Certificate authorities to trust besides the system's.
    pub extra_ca: Option<PathBuf>,
    /// Deliveries of one queue under way at once.
    pub in_flight_per_queue: u32,
}

/// Dead letters that are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// Where they are kept.
    pub dir: Option<PathBuf>,
}

/// How the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// How long what is under way may take.
    pub grace: Duration,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// What somebody must mend.
    Error,
    /// What somebody should look at.
    Warn,
    /// What happens once in a while.
    Info,
    /// What happens to each request.
    Debug,
    /// Everything.
    Trace,
}

/// For whom the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people where the log goes to a terminal, for machines elsewhere.
    Auto,
    /// For people.
    Text,
    /// For machines: an object per line.
    Json,
}

impl LogLevel {
    const NAMES: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, level)| *level).ok_or("it must be error, warn, info, debug or trace")
    }
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("it must be auto, text or json"),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            data: PathBuf::from("./semel-data"),
            store: StoreConfig::default(),
            node: NodeConfig::default(),
            metrics: true,
            tls: TlsConfig::default(),
            log: LogConfig { level: LogLevel::Info, format: LogFormat::Auto },
            telemetry: TelemetryConfig::default(),
            limits: LimitsConfig::default(),
            delivery: DeliveryConfig::default(),
            archive: ArchiveConfig::default(),
            shutdown: ShutdownConfig { grace: net::Limits::default().grace },
            bootstrap_key: None,
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { url: None, listen_url: None, migrate: true, connections: 16, prepare: true }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let net = net::Limits::default();
        Self {
            connections: None,
            body: 1024 * 1024,
            batch_body: 16 * 1024 * 1024,
            waiting_commands: group_commit::Options::default().capacity,
            header: net.max_header_bytes,
            header_timeout: net.header_timeout,
            body_timeout: net.body_timeout,
            idle_timeout: net.idle_timeout,
            write_timeout: net.write_timeout,
            http2_streams: net.http2.max_streams,
        }
    }
}

impl Default for DeliveryConfig {
    fn default() -> Self {
        Self { allow: Vec::new(), allow_hosts: Vec::new(), extra_ca: None, in_flight_per_queue: 64 }
    }
}
