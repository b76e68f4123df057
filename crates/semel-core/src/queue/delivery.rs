//! How jobs reach their workers: pushed to a webhook, or pulled under a lease.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::lease::LEASE_RANGE;
use crate::time::Millis;
use crate::violation::Violations;

/// Default lease of a pull queue: a crashed worker's job comes back within a minute, and a live worker has time for
/// several heartbeats.
pub const DEFAULT_LEASE: Millis = Millis::from_secs(60);

/// How long a webhook may take by default.
pub const DEFAULT_TIMEOUT: Millis = Millis::from_secs(15);

/// Shortest and longest time a webhook can be given. Proxies and load balancers cut connections that idle longer than
/// that; ack mode has no connection to hold.
pub const TIMEOUT_RANGE: RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_secs(15 * 60);

/// What a push lease has on top of the webhook's time-out. The node that made the request must be able to settle it before
/// the lease is taken for abandoned, even when its disk is slow for some seconds.
pub const PUSH_GRACE: Millis = Millis::from_secs(10);

/// How long a worker in ack mode may take by default. The handlers for whom 15 seconds are not enough mostly take minutes.
pub const DEFAULT_ACK_TIMEOUT: Millis = Millis::from_secs(5 * 60);

/// Longest URL of a webhook, in bytes: what every server and proxy on the way accepts.
pub const URL_MAX: usize = 2048;

/// How jobs reach their workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Delivery {
    /// The server calls a webhook.
    Push(Push),
    /// Workers come and lease.
    Pull(Pull),
}

/// The webhook of a push queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Push {
    /// Where jobs are posted to.
    pub url: String,
    /// What a 2xx answer means.
    pub mode: PushMode,
    /// How long the webhook may take to answer.
    pub timeout: Millis,
    /// How long a worker in ack mode may take to settle.
    pub ack_timeout: Millis,
    /// What happens when it does not.
    pub ack_timeout_action: AckTimeoutAction,
    /// Which signatures the webhook gets.
    pub signature: Signature,
}

/// The leases of a pull queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Pull {
    /// How long a worker may be silent before its job goes to another.
    pub lease: Millis,
}

/// What a 2xx answer of a webhook means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PushMode {
    /// The job is done.
    #[default]
    Standard,
    /// The job was received, and will be settled later.
    Ack,
}

/// What happens to a job whose ack did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AckTimeoutAction {
    /// It is a failed attempt like any other.
    #[default]
    Retry,
    /// The job is dead: for work whose half-done state a person must look at.
    Dead,
}

/// Which signatures a webhook gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signature {
    /// Standard Webhooks.
    #[default]
    Standard,
    /// Standard Webhooks and that of SimpleQ.
    SimpleQ,
}

impl Default for Push {
    /// Without a URL, which does not pass validation: the caller must name one.
    fn default() -> Self {
        Self {
            url: String::new(),
            mode: PushMode::default(),
            timeout: DEFAULT_TIMEOUT,
            ack_timeout: DEFAULT_ACK_TIMEOUT,
            ack_timeout_action: AckTimeoutAction::default(),
            signature: Signature::default(),
        }
    }
}

impl Default for Pull {
    fn default() -> Self {
        Self { lease: DEFAULT_LEASE }
    }
}

impl Delivery {
    /// Notes everything that is wrong with the settings, under `delivery.`.
    pub(super) fn check(&self, found: &mut Violations) {
        let mut within = |field: &str, span: Millis, range: RangeInclusive<Millis>| {
            let (least, most) = (range.start(), range.end());
            found.require(range.contains(&span), field, || format!("must be {least} to {most}, got {span}"));
        };
        match self {
            Self::Pull(pull) => within("delivery.leaseSeconds", pull.lease, LEASE_RANGE),
            Self::Push(push) => {
                within("delivery.timeout", push.timeout, TIMEOUT_RANGE);
                // A received job is a leased one whose worker answers by another way: the same limits hold.
                within("delivery.ackTimeout", push.ack_timeout, LEASE_RANGE);
                if let Err(problem) = check_url(&push.url) {
                    found.add("delivery.url", problem);
                }
            }
        }
    }
}

/// Checks the form of a webhook's URL. Where it leads is checked when it is called, because a name that is harmless now
/// may resolve to a private address later.
fn check_url(url: &str) -> Result<(), &'static str> {
    if url.len() > URL_MAX {
        return Err("must be at most 2048 bytes long");
    }
    // A backslash is a slash to some parsers and not to others, and so is a way to disagree about the host.
    if !url.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
        return Err(
            "must be ASCII without spaces, control characters or backslashes; percent-encode the rest",
        );
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err("must start with http:// or https://");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not carry a user name or password; deliveries are signed instead");
    }
    check_host_and_port(authority)
}

fn check_host_and_port(authority: &str) -> Result<(), &'static str> {
    // The colons of an IPv6 address are within its brackets, so the port is what follows them.
    let (is_host, host, after): (fn(char) -> bool, _, _) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, after) =
                rest.split_once(']').ok_or("must close the bracket around its IPv6 address")?;
            (|c| c.is_ascii_hexdigit() || c == ':' || c == '.', address, after)
        }
        None => {
            let (name, after) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'), name, after)
        }
    };
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("must name a host: a DNS name, an IPv4 address, or an IPv6 address in brackets");
    }
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port != 0) && !text.starts_with('+');
    let port_is_fine = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
    if port_is_fine { Ok(()) } else { Err("must have a port from 1 to 65535, or none") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(delivery: &Delivery) -> Vec<String> {
        let mut found = Violations::default();
        delivery.check(&mut found);
        found.iter().map(|v| v.field.clone()).collect()
    }

    #[test]
    fn a_webhook_is_an_http_url_with_a_host() {
        for good in [
            "http://a",
            "https://worker.example/jobs?queue=a#b",
            "HTTPS://worker.example:8443/",
            "http://[::1]:80/x",
            "http://[::1]",
            "http://127.0.0.1:65535",
            "https://worker.example/a@b:0",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        let long = format!("http://a/{}", "x".repeat(URL_MAX));
        for bad in [
            "",
            "worker.example",
            "//worker.example",
            "file:///etc/passwd",
            "ftp://a",
            "http:/a",
            "http://",
            "http:///path",
            "http://:80",
            "http://?x",
            "http://[]",
            "http://[::1",
            "http://::1]",
            "http://[::1]x:80",
            "http://user@a",
            "http://user:secret@a/",
            "http://a:0",
            "http://a:65536",
            "http://a:",
            "http://a:80:80",
            "http://a:x",
            "http://a:+80",
            "http://a]:80",
            "http://a,b/",
            "http://[fe80::1%eth0]/",
            "http://a b",
            "http://a\\@b",
            "http://a/\r\nHost: b",
            "http://größe.example",
            &long,
        ] {
            assert!(check_url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_bad_setting_of_a_webhook_is_named() {
        let push = Push { timeout: Millis::ZERO, ack_timeout: Millis::from_hours(13), ..Push::default() };
        assert_eq!(
            fields(&Delivery::Push(push)),
            ["delivery.timeout", "delivery.ackTimeout", "delivery.url"]
        );
    }

    #[test]
    fn the_limits_themselves_are_allowed_and_one_past_them_is_not() {
        let push = |timeout| Delivery::Push(Push { timeout, url: "http://a".into(), ..Push::default() });
        let pull = |lease| Delivery::Pull(Pull { lease });
        let one = Millis::from_millis(1);
        for (range, with, field) in [
            (LEASE_RANGE, pull as fn(Millis) -> Delivery, "delivery.leaseSeconds"),
            (TIMEOUT_RANGE, push, "delivery.timeout"),
        ] {
            assert_eq!(fields(&with(*range.start())), [""; 0]);
            assert_eq!(fields(&with(*range.end())), [""; 0]);
            assert_eq!(fields(&with(range.start().minus(one))), [field]);
            assert_eq!(fields(&with(range.end().plus(one))), [field]);
        }
    }
}
