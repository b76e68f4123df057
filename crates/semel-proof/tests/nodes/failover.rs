//! Another server takes over: a synchronous replica (fault 25), an asynchronous one (fault 26); and the old one comes back
//! (fault 27).

use std::ops::RangeInclusive;

use semel_cluster::{Cluster, Proxy, Replication, Side};
use semel_proof::checker::{Invariant, Report};
use semel_proof::settings;
use serde_json::{Value, json};

use crate::kit::plan::{Item, Queue};
use crate::kit::wire::time;
use crate::kit::witness::{Evidence, wall_clock};
use crate::stage::{DATABASE, NODES, Stage, turn};

/// A queue that nobody works on.
const KEPT: &str = "kept";

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

/// What the replica had not received is lost, and nothing else is: no token comes twice, no counter is wrong. The nodes know
/// which time that was, and mark what they deliver from before it.
#[test]
fn heavy_nodes_fail_over_to_an_asynchronous_replica() {
    for _ in 0..if settings::is_soak() { 10 } else { 1 } {
        let mut primary = Cluster::start().unwrap();
        let stream = Proxy::to(primary.address()).unwrap();
        let replica = Cluster::replica_through(&primary, stream.address(), Replication::Async).unwrap();
        let stage = nodes_of(&primary, &replica);
        // A job whose end was lost may be settled again. To the checker the token is stale then, if the end was a cancel.
        let traffic = stage.traffic_without_cancels();
        stage.put(&Queue::new(KEPT, &json!({"type": "pull", "leaseSeconds": 10})));
        stage.publish(&mut stage.client(), Item::keyed_in(KEPT, 1)).unwrap();
        stage.wait_for_work(300);
        primary.wait_until_replayed(&replica).unwrap();
        let held = wall_clock().millis();
        stream.hold(Side::Server);
        stage.wait_for_work(200);
        primary.kill().unwrap();
        let killed = wall_clock().millis();
        replica.promote().unwrap();
        stage.wait_for_work(300);
        let reported = assert_marked_and_reported(&stage);
        let evidence = stage.finish(traffic, &replica.url(DATABASE));
        assert_loss_is_bounded(&evidence, held - ON_ITS_WAY_MILLIS..=killed + ON_ITS_WAY_MILLIS);
        assert_loss_is_bounded(&evidence, reported);
    }
}

/// The job that was there when the replica took over may have been done, for all the nodes know; one that came later was not.
/// Every node tells the exposed time.
fn assert_marked_and_reported(stage: &Stage) -> RangeInclusive<u64> {
    // Not number two, which its dice delay.
    stage.publish(&mut stage.client(), Item::keyed_in(KEPT, 3)).unwrap();
    let turn = turn::take(stage, &mut stage.client(), KEPT, 0);
    assert_eq!((turn.jobs, turn.marked), (2, 1));
    let told: Vec<Value> = (0..NODES)
        .map(|node| stage.client_of(node).get("/v1/nodes").unwrap().json()["exposure"].clone())
        .collect();
    assert!(told.windows(2).all(|two| two[0] == two[1]), "{told:?}");
    let at = |end: &str| time(told[0][end].as_str().expect("there is an exposed time")).millis();
    at("since")..=at("until")
}

fn assert_loss_is_bounded(evidence: &Evidence, exposed: RangeInclusive<u64>) {
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
