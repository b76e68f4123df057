//! Every setting: its key, and how a value becomes part of the configuration.

use std::path::PathBuf;

use toml::Value;

use super::units::{count, flag, list, parsed, share, size, span, text};
use super::{Config, LogFormat, LogLevel};
use crate::credentials::Secret;

/// One setting.
pub(super) struct Setting {
    /// Its key in the file, with the tables it is in (`limits.body`).
    pub(super) key: &'static str,
    /// Whether its value must not be seen.
    pub(super) secret: bool,
    pub(super) set: fn(&mut Config, &Value) -> Result<(), String>,
}

impl Setting {
    /// The setting of this key.
    pub(super) fn named(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Its variable: `limits.headerTimeout` is `SEMEL_LIMITS_HEADER_TIMEOUT`.
    pub(super) fn variable(&self) -> String {
        let mut name = String::from("SEMEL_");
        for c in self.key.chars() {
            match c {
                '.' => name.push('_'),
                c if c.is_ascii_uppercase() => name.extend(['_', c]),
                c => name.push(c.to_ascii_uppercase()),
            }
        }
        name
    }
}

macro_rules! settings {
    (@secret secret) => { true };
    (@secret) => { false };
    ($($(#[$secret:ident])? $key:literal => $config:ident . $($field:ident).+ = |$value:ident| $parsed:expr;)*) => {
        /// All of them, in the order of the default file.
        pub(super) static SETTINGS: &[Setting] = &[$(Setting {
            key: $key,
            secret: settings!(@secret $($secret)?),
            set: |$config, $value| {
                $config.$($field).+ = $parsed;
                Ok(())
            },
        },)*];
    };
}

settings! {
    "listen" => config.listen = |v| parsed(v, "an address and a port, such as 127.0.0.1:7477")?;
    "data" => config.data = |v| path(v)?;
    #[secret]
    "store.url" => config.store.url = |v| Some(secret(v)?);
    #[secret]
    "store.listenUrl" => config.store.listen_url = |v| Some(secret(v)?);
    "store.migrate" => config.store.migrate = |v| flag(v)?;
    "store.connections" => config.store.connections = |v| count(v)?;
    "store.prepare" => config.store.prepare = |v| flag(v)?;
    "node.name" => config.node.name = |v| Some(text(v)?.to_owned());
    "node.address" => config.node.address = |v| Some(text(v)?.to_owned());
    "metrics" => config.metrics = |v| flag(v)?;
    "tls.cert" => config.tls.cert = |v| Some(path(v)?);
    "tls.key" => config.tls.key = |v| Some(path(v)?);
    "log.level" => config.log.level = |v| parsed::<LogLevel>(v, "a level")?;
    "log.format" => config.log.format = |v| parsed::<LogFormat>(v, "a format")?;
    "telemetry.otlp.endpoint" => config.telemetry.otlp.endpoint = |v| Some(text(v)?.to_owned());
    #[secret]
    "telemetry.otlp.headers" => config.telemetry.otlp.headers = |v| Some(secret(v)?);
    "telemetry.otlp.sample" => config.telemetry.otlp.sample = |v| share(v)?;
    "limits.connections" => config.limits.connections = |v| connections(v)?;
    "limits.body" => config.limits.body = |v| size(v)?;
    "limits.batchBody" => config.limits.batch_body = |v| size(v)?;
    "limits.waitingCommands" => config.limits.waiting_commands = |v| count(v)?;
    "limits.header" => config.limits.header = |v| size(v)?;
    "limits.headerTimeout" => config.limits.header_timeout = |v| span(v)?;
    "limits.bodyTimeout" => config.limits.body_timeout = |v| span(v)?;
    "limits.idleTimeout" => config.limits.idle_timeout = |v| span(v)?;
    "limits.writeTimeout" => config.limits.write_timeout = |v| span(v)?;
    "limits.http2Streams" => config.limits.http2_streams = |v| count(v)?;
    "delivery.allow" => config.delivery.allow = |v| each(v, |v| parsed(v, "a network, such as 10.0.0.0/8"))?;
    "delivery.allowHosts" => config.delivery.allow_hosts = |v| each(v, |v| text(v).map(str::to_owned))?;
    "delivery.extraCa" => config.delivery.extra_ca = |v| Some(path(v)?);
    "delivery.inFlightPerQueue" => config.delivery.in_flight_per_queue = |v| count(v)?;
    "archive.dir" => config.archive.dir = |v| Some(path(v)?);
    "shutdown.grace" => config.shutdown.grace = |v| span(v)?;
}

fn path(value: &Value) -> Result<PathBuf, String> {
    text(value).map(PathBuf::from)
}

/// Text that is not shown, not even when it is wrong.
fn secret(value: &Value) -> Result<Secret, String> {
    text(value).map(Secret::new).map_err(|_| "must be text, and not empty".to_owned())
}

fn each<T>(value: &Value, item: impl Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    list(value)?.iter().map(item).collect()
}

fn connections(value: &Value) -> Result<Option<usize>, String> {
    if value.as_str() == Some("auto") { Ok(None) } else { count(value).map(Some) }
}
