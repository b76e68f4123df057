//! An address of several servers, one by one: whichever of them is the primary.
//!
//! `tokio_postgres` goes through them itself, but takes the first that accepts writes. Of two that do, one is an old primary
//! that has come back, and only who asks further can tell which.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The servers of an address, and which of them is asked first.
#[derive(Debug)]
pub(crate) struct Hosts {
    each: Vec<Config>,
    first: AtomicUsize,
}

impl Hosts {
    pub(crate) fn of(config: &Config) -> Self {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let each = match count {
            0 | 1 => vec![config.clone()],
            _ => (0..count).map(|at| one_of(config, at)).collect(),
        };
        Self { each, first: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> usize {
        self.each.len()
    }

    /// Every server with its number, beginning with the one that was good last.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (usize, &Config)> {
        let first = self.first.load(Ordering::Relaxed);
        (first..first + self.count()).map(|at| at % self.count()).map(|at| (at, &self.each[at]))
    }

    /// A server is about to be tried. Should it not even refuse, the next attempt begins with another.
    pub(crate) fn trying(&self, at: usize) {
        self.first.store((at + 1) % self.count(), Ordering::Relaxed);
    }

    /// A server was the right one.
    pub(crate) fn found(&self, at: usize) {
        self.first.store(at, Ordering::Relaxed);
    }
}

/// What the address says, for one of its servers.
fn one_of(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    one.ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding())
        .keepalives(all.get_keepalives())
        .target_session_attrs(all.get_target_session_attrs())
        .keepalives_idle(all.get_keepalives_idle());
    all.get_user().map(|user| one.user(user));
    all.get_password().map(|password| one.password(password));
    all.get_dbname().map(|name| one.dbname(name));
    all.get_options().map(|options| one.options(options));
    all.get_application_name().map(|name| one.application_name(name));
    all.get_connect_timeout().map(|span| one.connect_timeout(*span));
    all.get_tcp_user_timeout().map(|span| one.tcp_user_timeout(*span));
    all.get_keepalives_interval().map(|span| one.keepalives_interval(span));
    all.get_keepalives_retries().map(|count| one.keepalives_retries(count));
    match all.get_hosts().get(at) {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    all.get_hostaddrs().get(at).map(|address| one.hostaddr(*address));
    // One port is that of all servers.
    all.get_ports().get(at).or(all.get_ports().first()).map(|port| one.port(*port));
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Hosts {
        Hosts::of(&url.parse().unwrap())
    }

    fn servers(hosts: &Hosts) -> Vec<(&Host, u16)> {
        hosts.in_turn().map(|(_, one)| (&one.get_hosts()[0], one.get_ports()[0])).collect()
    }

    #[test]
    fn each_server_keeps_what_the_address_says_of_all() {
        let several = hosts("postgres://u:p@one:1,two:2/d?connect_timeout=3&keepalives_retries=4");
        let tcp = |name: &str| Host::Tcp(name.to_owned());
        assert_eq!(servers(&several), [(&tcp("one"), 1), (&tcp("two"), 2)]);
        for (_, one) in several.in_turn() {
            assert_eq!(
                (one.get_user(), one.get_password(), one.get_dbname()),
                (Some("u"), Some(&b"p"[..]), Some("d"))
            );
            assert_eq!(one.get_connect_timeout(), Some(&std::time::Duration::from_secs(3)));
            assert_eq!(one.get_keepalives_retries(), Some(4));
        }
        let same_port = hosts("host=one,two port=7");
        assert_eq!(servers(&same_port), [(&tcp("one"), 7), (&tcp("two"), 7)]);
        assert_eq!(hosts("postgres://u@one:1/d").count(), 1);
    }

    #[test]
    fn the_one_that_was_good_is_asked_first_and_one_that_was_not_last() {
        let several = hosts("postgres://u@one,two,three/d");
        let order = || several.in_turn().map(|(at, _)| at).collect::<Vec<_>>();
        several.trying(0);
        assert_eq!(order(), [1, 2, 0]);
        several.trying(1);
        several.found(1);
        assert_eq!(order(), [1, 2, 0]);
    }
}
