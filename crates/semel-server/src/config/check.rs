//! What must hold among settings.

use std::time::Duration;

use semel_core::queue::DEFAULT_PAYLOAD_LIMIT;
use semel_core::violation::Violations;

use super::{ADMIN_KEY_VARIABLE, Config, telemetry};
use crate::credentials::{self, Secret};

/// Time-outs that are shorter end good connections, longer ones protect nobody.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// hyper reads at least this much.
const LEAST_HEADER: usize = 8 * 1024;

/// What the address of a database begins with.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// More connections make a PostgreSQL server slower, not faster.
const CONNECTIONS_MAX: usize = 500;

/// Longest name and longest address of a node.
const NAME_MAX: usize = 255;

/// Bodies are held in memory, whole; this is half of what may be in hand at once.
const MOST_BODY: usize = 128 << 20;

impl Config {
    /// Notes everything that is wrong with this configuration as a whole.
    pub(super) fn check(&self, wrong: &mut Violations) {
        wrong.require(self.tls.cert.is_some() == self.tls.key.is_some(), "tls", || {
            "cert and key go together: set both or none".into()
        });
        let key = self.bootstrap_key.as_ref();
        wrong.require(
            key.is_none_or(|key| credentials::well_formed(key.expose())),
            ADMIN_KEY_VARIABLE,
            || "is not an API key, or has a typo; semel serve --new-key makes one".into(),
        );
        wrong.require(self.delivery.in_flight_per_queue > 0, "delivery.inFlightPerQueue", || {
            "must be at least 1".into()
        });
        self.check_store(wrong);
        self.check_sizes(wrong);
        self.check_spans(wrong);
        telemetry::check(self, wrong);
    }

    fn check_store(&self, wrong: &mut Violations) {
        let store = &self.store;
        for (key, url) in [("store.url", &store.url), ("store.listenUrl", &store.listen_url)] {
            let is_url = |url: &Secret| SCHEMES.iter().any(|scheme| url.expose().starts_with(scheme));
            wrong.require(url.as_ref().is_none_or(is_url), key, || {
                "must be the address of a database, such as postgres://user@host:5432/database".into()
            });
        }
        wrong.require(store.listen_url.is_none() || store.url.is_some(), "store.listenUrl", || {
            "needs store.url".into()
        });
        wrong.require((2..=CONNECTIONS_MAX).contains(&store.connections), "store.connections", || {
            format!("must be 2 to {CONNECTIONS_MAX}")
        });
        for (key, name) in [("node.name", &self.node.name), ("node.address", &self.node.address)] {
            let fits = |name: &String| name.chars().count() <= NAME_MAX && !name.contains(char::is_control);
            wrong.require(name.as_ref().is_none_or(fits), key, || {
                format!("must be at most {NAME_MAX} printable characters")
            });
        }
    }

    fn check_sizes(&self, wrong: &mut Violations) {
        let limits = &self.limits;
        let payload = usize::try_from(DEFAULT_PAYLOAD_LIMIT).unwrap_or(usize::MAX);
        wrong.require(limits.connections != Some(0), "limits.connections", || {
            "must be at least 1, or \"auto\"".into()
        });
        wrong.require(limits.body > payload && limits.body <= MOST_BODY, "limits.body", || {
            format!("must be more than {payload} bytes, so that a payload fits with its envelope, and at most 128MiB")
        });
        wrong.require(
            limits.batch_body >= limits.body && limits.batch_body <= MOST_BODY,
            "limits.batchBody",
            || "must be at least limits.body, and at most 128MiB".into(),
        );
        wrong.require(limits.waiting_commands > 0, "limits.waitingCommands", || "must be at least 1".into());
        wrong.require((LEAST_HEADER..=1 << 20).contains(&limits.header), "limits.header", || {
            "must be 8KiB to 1MiB".into()
        });
        wrong.require(limits.http2_streams > 0, "limits.http2Streams", || "must be at least 1".into());
    }

    fn check_spans(&self, wrong: &mut Violations) {
        let limits = &self.limits;
        for (key, span) in [
            ("limits.headerTimeout", limits.header_timeout),
            ("limits.bodyTimeout", limits.body_timeout),
            ("limits.idleTimeout", limits.idle_timeout),
            ("limits.writeTimeout", limits.write_timeout),
        ] {
            wrong.require(TIMEOUTS.contains(&span), key, || "must be 100ms to 1h".into());
        }
        wrong.require(self.shutdown.grace <= *TIMEOUTS.end(), "shutdown.grace", || {
            "must be at most 1h".into()
        });
    }

    /// Whether the server may listen where it is told to. Without any API key it answers everybody, so that only this
    /// machine may reach it.
    pub fn check_exposure(&self, any_key: bool) -> Result<(), Violations> {
        if any_key || self.listen.ip().is_loopback() {
            return Ok(());
        }
        let listen = self.listen;
        Err(Violations::one(
            "listen",
            format!(
                "{listen} can be reached from other machines, and no API key exists that would keep strangers out. \
                 Set {ADMIN_KEY_VARIABLE} to a key made by semel serve --new-key, or listen on 127.0.0.1"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let (mut config, mut wrong) = (Config::default(), Violations::default());
        change(&mut config);
        config.check(&mut wrong);
        wrong.iter().map(|v| v.field.clone()).collect()
    }

    #[test]
    fn the_defaults_are_fine() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_rule_names_its_setting() {
        assert_eq!(found(|c| c.tls.key = Some("k".into())), ["tls"]);
        assert_eq!(found(|c| c.delivery.in_flight_per_queue = 0), ["delivery.inFlightPerQueue"]);
        assert_eq!(found(|c| c.store.url = Some(Secret::new("mysql://h/d"))), ["store.url"]);
        assert_eq!(found(|c| c.store.listen_url = Some(Secret::new("postgres://h/d"))), ["store.listenUrl"]);
        assert_eq!(found(|c| c.store.connections = 1), ["store.connections"]);
        assert_eq!(found(|c| c.node.name = Some("a\nb".into())), ["node.name"]);
        assert_eq!(found(|c| c.node.address = Some("x".repeat(256))), ["node.address"]);
        assert_eq!(found(|c| c.limits.connections = Some(0)), ["limits.connections"]);
        assert_eq!(found(|c| c.limits.body = 256 * 1024), ["limits.body"]);
        assert_eq!(found(|c| c.limits.batch_body = 1), ["limits.batchBody"]);
        assert_eq!(found(|c| c.limits.waiting_commands = 0), ["limits.waitingCommands"]);
        assert_eq!(found(|c| c.limits.header = 100), ["limits.header"]);
        assert_eq!(found(|c| c.limits.http2_streams = 0), ["limits.http2Streams"]);
        assert_eq!(found(|c| c.limits.idle_timeout = Duration::ZERO), ["limits.idleTimeout"]);
        assert_eq!(found(|c| c.shutdown.grace = Duration::from_secs(9999)), ["shutdown.grace"]);
    }

    #[test]
    fn without_a_key_only_loopback_is_listened_on() {
        let at = |listen: &str| Config { listen: listen.parse().unwrap(), ..Config::default() };
        for loopback in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert_eq!(at(loopback).check_exposure(false), Ok(()), "{loopback}");
        }
        for exposed in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:127.0.0.1]:1"] {
            let refused = at(exposed).check_exposure(false).unwrap_err().to_string();
            assert!(refused.contains(exposed) && refused.contains("--new-key"), "{refused}");
            assert_eq!(at(exposed).check_exposure(true), Ok(()), "{exposed}");
        }
    }
}
