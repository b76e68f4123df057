//! Another server takes over: a synchronous replica (fault 25), an asynchronous one (fault 26); and the old one comes back
//! (fault 27).

use semel_cluster::{Cluster, Proxy, Replication, Side};
use semel_proof::checker::{Invariant, Report};
use semel_proof::settings;

use crate::kit::witness::{Evidence, wall_clock};
use crate::stage::{DATABASE, NODES, Stage};

/// How long before the stream stopped something may have been answered that had not reached the replica.
const ON_ITS_WAY_MILLIS: u64 = 1000;

/// Nodes that know both servers. The first is asked first.
fn nodes_of(first: &Cluster, second: &Cluster) -> Stage {
    let (url, address) = (first.url(DATABASE), first.address().to_string());
    let both = url.replace(&address, &format!("{address},{}", second.address()));
    Stage::by(&[(); NODES].map(|()| both.clone()))
}

/// Nothing that was answered is lost. Then the old primary comes back, believes that it still is one, and nodes that make new
/// connections meet it first: it must not be written to, or what is written there must not be answered.
#[test]
fn heavy_nodes_fail_over_to_a_synchronous_replica() {
    for _ in 0..if settings::is_soak() { 10 } else { 1 } {
        let mut primary = Cluster::start().unwrap();
        let replica = Cluster::replica(&primary, Replication::Sync).unwrap();
        let stage = nodes_of(&primary, &replica);
        let traffic = stage.traffic();
        stage.wait_for_work(300);
        primary.kill().unwrap();
        replica.promote().unwrap();
        stage.wait_for_work(300);
        primary.restart().unwrap();
        // It does not even wait for its replica any more: whatever is written to it, it says yes.
        primary.commit_waits_for_nobody().unwrap();
        for _ in 0..3 {
            replica.terminate_backends().unwrap();
            stage.wait_for_work(100);
        }
        stage.finish_well(traffic, &replica.url(DATABASE));
    }
}

/// What the replica had not received is lost, and nothing else is: no token comes twice, no counter is wrong.
#[test]
fn heavy_nodes_fail_over_to_an_asynchronous_replica() {
    for _ in 0..if settings::is_soak() { 10 } else { 1 } {
        let mut primary = Cluster::start().unwrap();
        let stream = Proxy::to(primary.address()).unwrap();
        let replica = Cluster::replica_through(&primary, stream.address(), Replication::Async).unwrap();
        let stage = nodes_of(&primary, &replica);
        let traffic = stage.traffic();
        stage.wait_for_work(300);
        let held = wall_clock().millis();
        stream.hold(Side::Server);
        stage.wait_for_work(200);
        primary.kill().unwrap();
        let killed = wall_clock().millis();
        replica.promote().unwrap();
        stage.wait_for_work(300);
        let evidence = stage.finish(traffic, &replica.url(DATABASE));
        assert_loss_is_bounded(&evidence, held - ON_ITS_WAY_MILLIS..=killed + ON_ITS_WAY_MILLIS);
    }
}

fn assert_loss_is_bounded(evidence: &Evidence, exposed: std::ops::RangeInclusive<u64>) {
    let (lost, report) = (evidence.lost(), evidence.report());
    println!("{} answered publishes are lost; {report}", lost.len());
    assert!(!lost.is_empty(), "the replica had everything: nothing was tested");
    for (id, answered) in &lost {
        let at = answered.millis();
        assert!(exposed.contains(&at), "{id} was answered at {at}, {exposed:?} was exposed");
    }
    // The checker notices the loss: it is the broken build of this test.
    assert!(report.breaks(Invariant::I1), "{report}");
    assert_fenced(&report);
}

fn assert_fenced(report: &Report) {
    for invariant in [Invariant::I2, Invariant::I5, Invariant::I7] {
        assert!(!report.breaks(invariant), "{report}");
    }
}
