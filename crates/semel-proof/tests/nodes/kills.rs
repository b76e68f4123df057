//! Nodes are killed at random and started again; one is stopped past its leases and continued (fault 29). A node that dies
//! loses only its leases.

use std::time::Duration;

use rustix::process::Signal;
use semel_cluster::Cluster;
use semel_proof::checker::{Invariant, Verdict};
use semel_proof::dice::Dice;
use semel_proof::settings;

use crate::kit::pause::pass;
use crate::stage::{DATABASE, NODES, Node, Stage};

/// What the other nodes must get done while one is away.
const MEANWHILE: u64 = 50;

/// One at a time while the others go on, and at last all at once.
#[test]
fn heavy_nodes_kill_loop() {
    let rounds = settings::number("SEMEL_NODE_KILLS", 3);
    let cluster = Cluster::start().unwrap();
    let mut stage = Stage::on(&cluster);
    let mut dice = Dice::new(stage.seed());
    let traffic = stage.traffic();
    for _ in 1..=rounds {
        pass(Duration::from_millis(dice.within(50..=700)));
        let node = dice.index(NODES);
        stage.nodes[node].kill();
        stage.wait_for_work(MEANWHILE);
        stage.nodes[node].start();
    }
    stage.nodes.iter_mut().for_each(Node::kill);
    stage.nodes.iter_mut().for_each(Node::start);
    println!("{rounds} nodes were killed and started again, and then all");
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// While it stands still its leases run out and others do its work; in the long form it is also taken to be dead. What it
/// believes when it goes on no longer counts.
#[test]
fn heavy_nodes_race_and_one_is_stopped() {
    let rounds = if settings::is_soak() { 10 } else { 1 };
    // Leases are of one or two seconds, deliveries to the webhook of five; a node is lost after fifteen.
    let stopped = Duration::from_secs(if settings::is_soak() { 20 } else { 6 });
    let cluster = Cluster::start().unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    for round in 0..rounds {
        stage.wait_for_work(MEANWHILE);
        let node = &stage.nodes[round % NODES];
        node.signal(Signal::STOP);
        stage.wait_for_work(MEANWHILE);
        pass(stopped);
        node.signal(Signal::CONT);
    }
    stage.finish_well(traffic, &cluster.url(DATABASE));
}

/// The broken build of this driver: acknowledged work really is lost, and the checker must say so.
#[test]
fn heavy_nodes_whose_database_lost_jobs_are_caught() {
    let cluster = Cluster::start().unwrap();
    let stage = Stage::on(&cluster);
    let traffic = stage.traffic();
    stage.wait_for_work(500);
    traffic.end();
    cluster.sql(DATABASE, "DELETE FROM semel.done WHERE id IN (SELECT id FROM semel.done LIMIT 3)").unwrap();
    cluster
        .sql(
            DATABASE,
            "DELETE FROM semel.job j WHERE NOT EXISTS (SELECT FROM semel.done d WHERE d.id = j.id)
                           AND NOT EXISTS (SELECT FROM semel.live l WHERE l.id = j.id)",
        )
        .unwrap();
    let report = stage.evidence(&cluster.url(DATABASE), false).report();
    println!("{report}");
    assert_eq!(report.verdict(), Verdict::Broken, "{report}");
    assert!(report.breaks(Invariant::I1), "{report}");
}
