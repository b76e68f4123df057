//! A machine of its own behind a cable that loses packets.

use std::{path::Path, process::Output};

use semel_cluster::{Cluster, Namespace, Proxy, Side};

use crate::process::{self, Second, eventually};

/// A namespace, and a way from it to a cluster.
struct Route {
    namespace: Namespace,
    proxy: Proxy,
    url: String,
}

impl Route {
    /// `None` where this machine does not allow it, which is said.
    fn open(cluster: &Cluster) -> Option<Self> {
        let namespace = Namespace::create()
            .inspect_err(|error| eprintln!("SKIPPED: partitions by network namespaces: {error}"))
            .ok()?;
        let proxy = Proxy::on(namespace.host(), cluster.address()).unwrap();
        let url = cluster.url_through(proxy.address(), "postgres");
        Some(Self { namespace, proxy, url })
    }

    fn port(&self) -> u16 {
        self.proxy.address().port()
    }

    /// Asks the cluster from inside.
    fn ask(&self, sql: &str) -> Output {
        let url = format!("{}?connect_timeout=2", self.url);
        self.namespace.command("psql").args(["-XAtq", "--dbname", &url, "--command", sql]).output().unwrap()
    }

    fn answers(&self) -> bool {
        self.ask("SELECT 1").stdout == b"1\n"
    }
}

#[test]
fn heavy_a_partition_cuts_off_what_runs_inside_until_it_heals() {
    let cluster = Cluster::start().unwrap();
    let Some(route) = Route::open(&cluster) else { return };
    eventually("an answer", || route.answers());
    for side in [Side::Client, Side::Server] {
        route.namespace.lose(side, route.port(), 100).unwrap();
        assert!(!route.answers(), "packets of the {side:?} arrive");
        assert!(route.namespace.lost().unwrap() > 0);
        route.namespace.heal().unwrap();
        eventually("healing", || route.answers());
    }
}

#[test]
fn heavy_a_lossy_cable_loses_packets_and_no_answers() {
    let cluster = Cluster::start().unwrap();
    let Some(route) = Route::open(&cluster) else { return };
    for side in [Side::Client, Side::Server] {
        route.namespace.lose(side, route.port(), 20).unwrap();
    }
    // psql gives a connection up after two seconds, so one or the other question is not answered.
    eventually("a lost packet and an answer", || route.answers() && route.namespace.lost().unwrap() > 0);
}

#[test]
fn heavy_nothing_is_left_of_a_namespace_whose_process_is_killed() {
    if let Err(error) = Namespace::create() {
        eprintln!("SKIPPED: partitions by network namespaces: {error}");
        return;
    }
    let second = Second::start("namespace::second_process", "");
    let (host, name) = (second.word.clone(), format!("/run/netns/sml{}n0", second.process.id()));
    assert!(has_address(&host) && Path::new(&name).exists());
    second.kill();
    eventually("removal of the cable", || !has_address(&host));
    eventually("removal of the namespace", || !Path::new(&name).exists());
}

#[test]
#[ignore = "the second process of another test"]
fn second_process() {
    let Some(_) = process::argument() else { return };
    let namespace = Namespace::create().unwrap();
    process::say(&namespace.host().to_string());
}

/// Whether this machine has an end of a cable with this address.
fn has_address(host: &str) -> bool {
    let addresses = std::fs::read_to_string("/proc/net/fib_trie").unwrap();
    addresses.lines().any(|line| line.split_whitespace().last() == Some(host))
}
